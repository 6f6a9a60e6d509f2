"""A text classifier of spaCy on these kernels: a configuration in which nothing but names has changed.

    python examples/spacy_component.py          trains it on a few sentences, and says what it makes of new ones
    python examples/spacy_component.py --plain  the same with Thinc's own layers, for comparison

`pip install 'seqformats[thinc]' spacy`; no trained pipeline is needed.

Two lines do it.  ``@callbacks = "seqformats.use.v1"`` sets the Ops before the models are made, so what spaCy's own
architectures do along sequences runs on these kernels; and the layers of the head are called ``seqformats....v1``.
"""

import argparse

import spacy
from spacy.training import Example
from thinc.api import Config, fix_random_seed

import seqformats  # noqa: F401  its layers are registered with Thinc's once both are imported

CONFIG = """
[nlp]
lang = "en"
pipeline = ["textcat"]

[nlp.before_creation]
@callbacks = "seqformats.use.v1"

[components]

[components.textcat]
factory = "textcat"

[components.textcat.model]
@layers = "chain.v1"

[components.textcat.model.*.tok2vec]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 32
depth = 2
embed_size = 500
window_size = 1
maxout_pieces = 2
subword_features = true

[components.textcat.model.*.ragged]
@layers = "seqformats.list2ragged.v1"

[components.textcat.model.*.attention]
@layers = "seqformats.ParametricAttention.v1"
nO = 32

[components.textcat.model.*.pooled]
@layers = "seqformats.reduce_sum.v1"

[components.textcat.model.*.output]
@layers = "Softmax.v1"
nI = 32
"""
PLAIN = CONFIG.replace('[nlp.before_creation]\n@callbacks = "seqformats.use.v1"\n', "").replace("seqformats.", "")

TEXTS = {
    "weather": [
        "It will rain in the north tomorrow",
        "A cold wind and some snow tonight",
        "Sunny and warm, with clouds later",
        "Storms are expected at the coast",
        "Fog in the valleys, sun on the hills",
    ],
    "cooking": [
        "Chop the onions and fry them in butter",
        "Let the dough rest for an hour",
        "Add salt, pepper and two eggs",
        "Bake the bread until it is brown",
        "Stir the soup and serve it hot",
    ],
}
NEW = {"Rain and wind at the coast tonight": "weather", "Fry the eggs in butter and add salt": "cooking"}


def train(config: str = CONFIG, steps: int = 30) -> tuple[spacy.Language, list[float]]:
    """The pipeline, trained on the texts, and the loss of each step."""
    fix_random_seed(0)
    nlp = spacy.util.load_model_from_config(Config().from_str(config), auto_fill=True)
    examples = [
        Example.from_dict(nlp.make_doc(text), {"cats": {kind: float(kind == own) for kind in TEXTS}})
        for own, texts in TEXTS.items()
        for text in texts
    ]
    optimizer = nlp.initialize(lambda: examples)
    losses = []
    for _ in range(steps):
        found = nlp.update(examples, sgd=optimizer, drop=0.0)
        losses.append(found["textcat"])
    return nlp, losses


def main() -> None:
    """Train and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="with Thinc's own layers")
    nlp, losses = train(PLAIN if parser.parse_args().plain else CONFIG)
    print(f"Ops: {nlp.get_pipe('textcat').model.ops.name}; loss from {losses[0]:.4f} to {losses[-1]:.6f}")
    for text in NEW:
        cats = nlp(text).cats
        kind = max(cats, key=cats.__getitem__)
        print(f"{kind:8} {cats[kind]:.2f}  {text}")


if __name__ == "__main__":
    main()

"""A classifier over words, of these layers and of Thinc's own, and texts that every Python has."""

import inspect
import pydoc_data.topics
import re
import zlib

import numpy as np
import thinc.api as api

import seqformats as sf

MODULES = [
    "argparse",
    "ast",
    "bdb",
    "cmd",
    "codecs",
    "datetime",
    "decimal",
    "difflib",
    "email.message",
    "inspect",
    "logging",
    "pathlib",
    "pickle",
    "random",
]
WIDTH, ROWS, LONGEST = 16, 1000, 40


def words(text):
    """The numbers of the words of a text, of shape (length, 1)."""
    found = [zlib.crc32(word.encode()) for word in re.findall(r"[a-z]+", text.lower())[:LONGEST]]
    return np.array(found, np.uint64).reshape(-1, 1)


def texts(count):
    """Paragraphs of the language's manual, and docstrings of its library: the words of each, and which it is."""
    manual = [part for text in pydoc_data.topics.topics.values() for part in text.split("\n\n")]
    library = []
    for name in MODULES:
        for _, thing in inspect.getmembers(__import__(name, fromlist=["_"])):
            members = [thing, *vars(thing).values()] if inspect.isclass(thing) else [thing]
            library += [inspect.cleandoc(m.__doc__) for m in members if isinstance(getattr(m, "__doc__", None), str)]
    kinds = [[w for w in map(words, dict.fromkeys(kind)) if len(w) > 4][: count // 2] for kind in (manual, library)]
    batch = [(w, k) for k, kind in enumerate(kinds) for w in kind]
    order = np.random.default_rng(0).permutation(len(batch))
    return [batch[i][0] for i in order], np.eye(2, dtype="f")[[batch[i][1] for i in order]]


def classifier(layers):
    """The model, its weights always the same; `layers` is `sf.thinc` or Thinc itself."""
    api.fix_random_seed(0)
    return api.chain(
        layers.with_array(api.HashEmbed(WIDTH, ROWS, column=0, seed=1)),
        layers.with_padded(api.LSTM(WIDTH, WIDTH)),
        api.list2ragged() if layers is api else sf.thinc.list2ragged(),
        layers.expand_window(1),
        layers.with_array(api.Relu(WIDTH, 3 * WIDTH)),
        layers.ParametricAttention(WIDTH),
        layers.reduce_mean(),
        api.Softmax(2, WIDTH),
    )


def losses(model, X, Y, steps, size=20):
    """The losses of so many steps, over and over the texts."""
    api.fix_random_seed(0)
    model.initialize(X[:5], Y[:5])
    optimizer, found = api.Adam(0.001), []
    for step in range(steps):
        start = step * size % (len(X) - size + 1)
        guess, backprop = model.begin_update(X[start : start + size])
        difference = guess - Y[start : start + size]
        found.append(float((difference**2).sum()))
        backprop(difference / size)
        model.finish_update(optimizer)
    return found

"""The processor of transformers that wants pyctcdecode and KenLM, with neither of them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.bridges

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", "a", "b", "t"]
ARPA = (
    "\\data\\\nngram 1=6\nngram 2=2\n\n\\1-grams:\n-2 <unk>\n-99 <s> -0.3\n-1 </s>\n-1 a -0.2\n-1 tab -0.1\n-1 bat\n\n"
    "\\2-grams:\n-0.1 a bat\n-0.1 <s> a\n\n\\end\\\n"
)
# In a process of its own, so that neither name stays where other tests look for it.
SCRIPT = """
import json, sys
import numpy as np
import seqformats as sf
sf.ctc.as_pyctcdecode()
sf.ctc.as_pyctcdecode()
import transformers
from transformers import Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2ProcessorWithLM
from pyctcdecode import BeamSearchDecoderCTC, build_ctcdecoder
folder, letters = sys.argv[1], json.loads(sys.argv[2])
decoder = build_ctcdecoder(letters, folder + "/words.arpa")
processor = Wav2Vec2ProcessorWithLM(
    feature_extractor=Wav2Vec2FeatureExtractor(),
    tokenizer=Wav2Vec2CTCTokenizer(folder + "/vocab.json"),
    decoder=decoder,
)
logits = np.load(folder + "/logits.npy")
found = []
for kind in (processor, None):
    if kind is None:
        processor.save_pretrained(folder + "/saved")
        processor = Wav2Vec2ProcessorWithLM.from_pretrained(folder + "/saved", alpha=0.7)
        assert processor.language_model.alpha == 0.7
        processor.language_model.alpha = 0.5
    one = processor.decode(logits[0], n_best=2, output_word_offsets=True, hotwords=["bat"])
    many = processor.batch_decode(logits, beam_width=50, alpha=0.3)
    processor.decoder.reset_params(alpha=0.5)
    found.append([one.text, one.lm_score, one.word_offsets, many.text, many.logit_score, many.lm_score])
print(json.dumps(found))
"""


def test_the_processor_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "words.arpa").write_text(ARPA)
    (tmp_path / "vocab.json").write_text(json.dumps({letter: k for k, letter in enumerate(LETTERS)}))
    logits = np.random.default_rng(0).standard_normal((3, 25, len(LETTERS))).astype("f4") * 3
    np.save(tmp_path / "logits.npy", logits)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(LETTERS)],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout.splitlines()[-1])
    assert one == two, "what was saved and loaded says the same"
    decoder = sf.ctc.build_ctcdecoder(LETTERS, tmp_path / "words.arpa")
    best = decoder.decode_beams(logits[0], hotwords=["bat"])[:2]
    assert one[0] == [beam.text for beam in best]
    assert one[1] == pytest.approx([beam.lm_score for beam in best])
    assert [offset["word"] for offset in one[2][0]] == best[0].text.split()
    decoder.reset_params(alpha=0.3)
    beams = [decoder.decode_beams(x, beam_width=50)[0] for x in logits]
    assert one[3] == [beam.text for beam in beams]
    assert one[5] == pytest.approx([beam.lm_score for beam in beams])


def test_another_pyctcdecode_is_left_alone():
    code = "import sys, types; sys.modules['pyctcdecode'] = types.ModuleType('pyctcdecode'); import seqformats as sf; "
    done = subprocess.run(
        [sys.executable, "-c", code + "sf.ctc.as_pyctcdecode()"], capture_output=True, text=True, check=False
    )
    assert "another pyctcdecode has been imported already; call as_pyctcdecode before that" in done.stderr

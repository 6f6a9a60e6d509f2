"""Models of transformers over one row: each beside itself alone with every sequence, into which nothing can leak."""

import concurrent.futures
import copy
import pickle
import threading
from types import SimpleNamespace

import pytest

import seqformats as sf

pytestmark = pytest.mark.bridges
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from free_models import CAUSAL, DECODER, ENCODER, MASKED, PAIRED, PLACES, REFUSED, WORDS, build  # noqa: E402

pad = torch.nn.utils.rnn.pad_sequence
LENGTHS = [17, 1, 33, 5, 2, 40, 12, 9]  # 119, more than the positions of most models
N = len(LENGTHS)
SOURCES, TARGETS = [7, 1, 9, 12, 3], [3, 8, 1, 5, 15]


def drawn(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(6, WORDS, (n,), generator=generator) for n in lengths]


ROWS = drawn(LENGTHS, 1)
IDS = sf.Ragged(torch.cat(ROWS), LENGTHS)
RIGHT = {"input_ids": pad(ROWS, True, 0), "attention_mask": pad([torch.ones_like(r) for r in ROWS], True, 0)}
LEFT = {key: pad([r.flip(0) for r in x], True, 0).flip(1) for key, x in
        {"input_ids": ROWS, "attention_mask": [torch.ones_like(r) for r in ROWS]}.items()}  # fmt: skip


def away(a, b):
    """The largest difference, as a part of the largest number."""
    a, b = a.detach(), b.detach()
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-12))


def gradients(model):
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def close_gradients(got, expected, within=1e-5):
    top = max(float(x.abs().max()) for x in expected.values())
    assert set(got) == set(expected)
    assert max(float((got[k] - expected[k]).abs().max()) for k in got) < within * top


def labels_for(causal):
    """Labels by sequence, a third of them -100; causal models predict none over the beginning of a sequence."""
    generator = torch.Generator().manual_seed(2)
    made = [torch.where(torch.rand(len(r), generator=generator) < 0.3, -100, r) for r in ROWS]
    for each in made if causal else ():
        each[0] = -100
    return made


def alone(model, causal):
    """States, logits, loss and gradients of each sequence alone; the loss is the mean over all labels."""
    labels = labels_for(causal)
    counts = [int((y != -100).sum()) for y in labels]
    outs = [
        model(input_ids=r[None], labels=y[None], output_hidden_states=True) for r, y in zip(ROWS, labels, strict=True)
    ]
    loss = sum(o.loss * k for o, k in zip(outs, counts, strict=True) if k) / sum(counts)
    loss.backward()
    states = torch.cat([o.hidden_states[-1][0] for o in outs]).detach()
    logits = torch.cat([o.logits[0] for o in outs]).detach()
    return SimpleNamespace(states=states, logits=logits, loss=loss.detach(), gradients=gradients(model), labels=labels)


def pair(name, *args):
    model = build(name, *args)
    return model, sf.hf.padding_free(copy.deepcopy(model))


@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_models_of_tokens(name):
    """States, loss and gradients, and a neighbour that is not a number stays there."""
    causal = name in CAUSAL
    model, free = pair(name)
    expected = alone(model, causal)
    out = free(input_ids=IDS, labels=sf.Ragged(torch.cat(expected.labels), LENGTHS), output_hidden_states=True)
    assert away(out.hidden_states[-1].data, expected.states) < 1e-5
    assert away(out.logits.data, expected.logits) < 1e-5
    assert away(out.loss, expected.loss) < 1e-5
    out.loss.backward()
    close_gradients(gradients(free), expected.gradients, 3e-5)
    embeds = model.get_input_embeddings()(torch.cat(ROWS)).detach()
    embeds[18:51] = float("nan")
    try:
        logits = free(inputs_embeds=sf.Ragged(embeds, LENGTHS)).logits.data
    except (NotImplementedError, ValueError):
        return  # the model does not take embeddings
    assert logits[:18].isfinite().all()
    assert logits[51:].isfinite().all()
    if name != "roberta" and name != "camembert":  # which count positions by ids, where there are some
        assert away(logits[51:], expected.logits[51:]) < 1e-5


@pytest.mark.parametrize("name", PAIRED)
def test_encoder_decoders(name):
    """Two batches of different lengths: as encodings, padded, and with ids for the decoder."""
    model, free = pair(name)
    if name == "umt5":  # whose gradients float32 alone puts off by 1e-4
        model, free = model.double(), free.double()
    sources, targets = drawn(SOURCES, 3), drawn(TARGETS, 4)
    outs = [model(input_ids=s[None], labels=t[None]) for s, t in zip(sources, targets, strict=True)]
    loss = sum(o.loss * len(t) for o, t in zip(outs, targets, strict=True)) / sum(TARGETS)
    loss.backward()
    expected, logits = gradients(model), torch.cat([o.logits[0] for o in outs])
    x, y = sf.Ragged(torch.cat(sources), SOURCES), sf.Ragged(torch.cat(targets), TARGETS)
    out = free(input_ids=x, labels=y)
    assert away(out.logits.data, logits) < 1e-5
    assert away(out.loss, loss) < 1e-5
    assert out.encoder_last_hidden_state.lengths.tolist() == SOURCES
    out.loss.backward()
    close_gradients(gradients(free), expected, 3e-5)
    mask = pad([torch.ones_like(s) for s in sources], True, 0)
    given = {"input_ids": pad(sources, True, 0), "attention_mask": mask}
    labels = pad(targets, True, -100)
    out = free(**given, labels=labels)
    assert away(out.logits[labels != -100], logits) < 1e-5
    assert away(out.loss, loss) < 1e-5
    assert not out.logits[labels == -100].any()
    ids = model.prepare_decoder_input_ids_from_labels(labels=labels)
    assert away(free(**given, decoder_input_ids=ids).logits[labels != -100], logits) < 1e-5
    options = {"max_new_tokens": 5, "do_sample": False, "num_beams": 1}
    assert torch.equal(model.generate(**given, **options), free.generate(**given, **options))
    with pytest.raises(TypeError, match="needs decoder_input_ids="):
        free(input_ids=x)
    with pytest.raises(sf.ConversionError, match="5 sequences, but the decoder 4"):
        free(input_ids=x, labels=y[:4])


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("check", [True, False])
def test_refused_models(name, check):
    """Refused with a reason; nothing is changed."""
    model = build(name)
    before = model.config._attn_implementation
    if not check and name in ("layoutlm", "m2m_100"):
        free = sf.hf.padding_free(model, check=False)
        if name == "layoutlm":  # found by its first forward
            with pytest.raises(TypeError, match=REFUSED[name][1]):
                free(input_ids=IDS)
        sf.hf.padding_free(model, on=False)
    else:
        with pytest.raises(TypeError, match=REFUSED[name][1]) as caught:
            sf.hf.padding_free(model, check=check)
        assert caught.value.code == "SF313"
    assert model.config._attn_implementation == before
    assert not model._forward_pre_hooks


_SMALL = {**ENCODER, "num_labels": 3}
HEADS = {
    "BertForSequenceClassification": ("bert", _SMALL),
    "AlbertForSequenceClassification": ("albert", {**_SMALL, "embedding_size": 16, "classifier_dropout_prob": 0.0}),
    "DistilBertForSequenceClassification": (
        "distilbert", {**MASKED["distilbert"], "num_labels": 3, "seq_classif_dropout": 0.0}
    ),
    "ModernBertForSequenceClassification": (
        "modernbert", {**MASKED["modernbert"], "num_labels": 3, "classifier_pooling": "mean"}
    ),
    "LlamaForSequenceClassification": ("llama", {**DECODER, "num_labels": 3}),
    "GPT2ForSequenceClassification": ("gpt2", {**CAUSAL["gpt2"], "num_labels": 3}),
}  # fmt: skip


@pytest.mark.parametrize("kind", HEADS)
def test_heads_of_sequences(kind):
    """Classification pools the first, the last or all tokens of each sequence."""
    model, free = pair(*HEADS[kind], kind)
    classes = torch.arange(N) % 3
    outs = [model(input_ids=r[None], labels=y[None]) for r, y in zip(ROWS, classes, strict=True)]
    loss = sum(o.loss for o in outs) / N
    loss.backward()
    expected = gradients(model)
    for given in ({"input_ids": IDS}, RIGHT):
        out = free(**given, labels=classes)
        assert away(out.logits, torch.cat([o.logits for o in outs])) < 1e-5
        assert away(out.loss, loss) < 1e-5
        out.loss.backward()
        close_gradients(gradients(free), expected)


def test_poolers_and_tuples():
    for name in ("bert", "albert", "roberta"):
        kind = {"bert": "BertModel", "albert": "AlbertModel", "roberta": "RobertaModel"}[name]
        model, free = pair(name, MASKED[name], kind)
        outs = [model(input_ids=r[None]) for r in ROWS]
        assert away(free(IDS).pooler_output, torch.cat([o.pooler_output for o in outs])) < 1e-5
        states = free(IDS, output_hidden_states=True, return_dict=False)[0]
        assert away(states.data, torch.cat([o[0][0] for o in outs])) < 1e-5
        with pytest.raises(sf.StructureError, match="sequence 1 is empty"):
            free(sf.Ragged(ROWS[0], [16, 0, 1]))


def test_heads_of_tokens_and_choices():
    model, free = pair("bert", _SMALL, "BertForTokenClassification")
    labels = torch.cat(ROWS) % 3
    expected = torch.cat([model(input_ids=r[None]).logits[0] for r in ROWS])
    out = free(input_ids=IDS, labels=sf.Ragged(labels, LENGTHS))
    assert away(out.logits.data, expected) < 1e-5
    assert away(out.loss, torch.nn.functional.cross_entropy(expected, labels)) < 1e-5
    model, free = pair("bert", ENCODER, "BertForMultipleChoice")
    given = {key: x.reshape(N // 2, 2, -1) for key, x in RIGHT.items()}
    assert away(free(**given).logits, model(**given).logits) < 1e-5
    model, free = pair("bert", ENCODER, "BertForQuestionAnswering")
    expected = torch.cat([model(input_ids=r[None]).start_logits[0] for r in ROWS])
    assert away(free(input_ids=IDS).start_logits.data, expected) < 1e-5
    with pytest.raises(sf.ConversionError, match="loss of question answering"):
        free(input_ids=IDS, start_positions=torch.zeros(N), end_positions=torch.zeros(N))


@pytest.fixture(scope="module", params=["llama", "bert", "roberta", "mistral"])
def trained(request):
    causal = request.param in CAUSAL
    model, free = pair(request.param)
    return SimpleNamespace(name=request.param, causal=causal, model=model, free=free, alone=alone(model, causal))


def test_forms_of_a_batch(trained):
    """All encodings, padding on both sides, one row: results take the form that came."""
    free, expected = trained.free, trained.alone
    labels = torch.cat(expected.labels)
    for encoding in (sf.Ragged, sf.List, sf.Packed, sf.Padded, sf.Masked):
        out = free(input_ids=sf.convert(IDS, encoding), labels=sf.Ragged(labels, LENGTHS))
        assert away(out.logits.data, expected.logits) < 1e-5
        assert away(out.loss, expected.loss) < 1e-5
    for given in (RIGHT, LEFT):
        token = given["attention_mask"].bool()
        out = free(**given, labels=torch.full(token.shape, -100).masked_scatter(token, labels))
        assert tuple(out.logits.shape[:2]) == tuple(token.shape)
        assert not out.logits[~token].any()
        assert away(out.logits[token], expected.logits) < 1e-5
        assert away(out.loss, expected.loss) < 1e-5
    row = {"input_ids": torch.cat(ROWS)[None], "labels": labels[None]}
    ends = torch.as_tensor(IDS.offsets.tolist(), dtype=torch.int32)
    out = free(**row, cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=40, max_length_k=40)
    assert away(out.logits[0], expected.logits) < 1e-5
    assert away(out.loss, expected.loss) < 1e-5
    if trained.name != "roberta":
        out = free(**row, position_ids=torch.as_tensor(sf.position_ids(LENGTHS))[None])
        assert away(out.logits[0], expected.logits) < 1e-5
    gaps = sf.Ragged(torch.cat(ROWS), [*LENGTHS[:3], 0, *LENGTHS[3:], 0])
    assert away(free(input_ids=gaps).logits.data, expected.logits) < 1e-5
    rows = [dict(zip(("input_ids", "labels"), (r.tolist(), y.tolist()), strict=True))
            for r, y in zip(ROWS, expected.labels, strict=True)]  # fmt: skip
    if trained.name == "llama":
        flat = sf.hf.Collator(flatten=True, return_flash_attn_kwargs=True)(rows)
        assert away(free(**flat).logits[0], expected.logits) < 1e-5


def checkpoints(model):
    """The method that enables them, which transformers 5.24 renamed."""
    return getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable


def test_training(trained):
    """Gradient checkpoints of both kinds, copies, pickles, threads, evaluation modes."""
    free, expected = trained.free, trained.alone
    labels = sf.Ragged(torch.cat(expected.labels), LENGTHS)
    for reentrant in (None, False, True):
        model = copy.deepcopy(free).train()
        if reentrant is not None:
            checkpoints(model)({"use_reentrant": reentrant})
        if reentrant:
            model.enable_input_require_grads()
        model(input_ids=IDS, labels=labels).loss.backward()
        close_gradients(gradients(model), expected.gradients)
    for again in (copy.deepcopy(free), pickle.loads(pickle.dumps(free))):
        assert away(again(input_ids=IDS).logits.data, expected.logits) < 1e-5
    found = [None] * 4

    def work(i):
        with torch.no_grad():
            found[i] = free(input_ids=IDS[i:]).logits.data

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert all(away(x, expected.logits[-len(x) :]) < 1e-5 for x in found)


def test_saving_generating_and_off(trained, tmp_path):
    free, model = trained.free, trained.model
    free.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert "seqformats" not in (tmp_path / "config.json").read_text()
    assert torch.equal(again(**RIGHT).logits, model(**RIGHT).logits)
    if trained.causal:
        options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
        assert torch.equal(model.generate(**LEFT, **options), free.generate(**LEFT, **options))
    for other in (copy.deepcopy(free), pickle.loads(pickle.dumps(free))):
        sf.hf.padding_free(other, on=False)
        assert not any(each._forward_pre_hooks or each._forward_hooks for each in other.modules())
        assert other.config._attn_implementation == model.config._attn_implementation
        assert torch.equal(other(**RIGHT).logits, model(**RIGHT).logits)
    assert isinstance(free(IDS).logits, sf.Ragged)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_trainer_and_adapters(tmp_path):
    """Trainer with its own collator, in training and evaluation, and adapters of PEFT, beside the padded model."""
    peft = pytest.importorskip("peft")
    pytest.importorskip("accelerate")
    rows = [{"input_ids": r.tolist(), "labels": i % 3} for i, r in enumerate(ROWS)]
    losses = []
    for free in (False, True):
        model = build("bert", _SMALL, "BertForSequenceClassification")
        torch.manual_seed(0)
        model = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["query", "value"], task_type="SEQ_CLS"))
        if free:
            sf.hf.padding_free(model.get_base_model())
        options = {"use_cpu": True, "report_to": [], "per_device_train_batch_size": 4, "max_steps": 4, "seed": 0}
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(str(tmp_path), disable_tqdm=True, save_strategy="no", **options),
            data_collator=sf.hf.Collator(pad_token_id=0),
            train_dataset=rows,
            eval_dataset=rows,
        )
        losses.append((trainer.train().training_loss, trainer.evaluate()["eval_loss"]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_compiled():
    """A compiled model has the values of the model, and is compiled anew for none of ten shapes after the second."""
    model, free = pair("bert")
    compiled = torch.compile(free, backend="eager")
    try:
        for i in range(12):
            lengths = [1 + (7 * i + 5 * k) % 29 for k in range(3 + i % 4)]
            x = sf.Ragged(torch.cat(drawn(lengths, i)), lengths)
            with torch.compiler.set_stance("default" if i < 2 else "fail_on_recompile"):
                out = compiled(input_ids=x, labels=x)
                out.loss.backward()
            assert away(out.logits.data, free(input_ids=x).logits.data) < 1e-5
    finally:
        torch.compiler.reset()
    assert model is not free


def test_dropout_is_drawn_anew():
    _, free = pair("bert", {**ENCODER, "attention_probs_dropout_prob": 0.5}, "BertModel")
    free.train()
    torch.manual_seed(0)
    first, second = free(IDS)[0].data, free(IDS)[0].data
    assert away(first, second) > 1e-3
    torch.manual_seed(0)
    assert torch.equal(free(IDS)[0].data, first)


@pytest.mark.parametrize("reentrant", [True, False])
def test_dropout_in_checkpoints(reentrant):
    """A checkpoint draws for its second forward what it has drawn for the first."""
    found = []
    for again in (False, True):
        free = pair("bert", {**ENCODER, "attention_probs_dropout_prob": 0.5})[1].train()
        if again:
            checkpoints(free)({"use_reentrant": reentrant})
            free.enable_input_require_grads()
        torch.manual_seed(0)
        free(input_ids=IDS, labels=IDS).loss.backward()
        found.append(gradients(free))
    close_gradients(found[1], found[0])


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "llama4_text", "t5", "umt5"])
def test_no_sequence_goes_alone(name, monkeypatch):
    """Soft caps, sinks, chunks and relative biases are one call of attention for each layer, whatever the batch."""
    from seqformats.hf.unpadded import attend

    free, calls = pair(name)[1], []
    original = attend.attend_sequences
    monkeypatch.setattr(attend, "attend_sequences", lambda *a, **k: calls.append(k) or original(*a, **k))
    free(input_ids=IDS, **({"labels": IDS} if name in PAIRED else {}))
    layers = {"llama4_text": 4, "t5": 6, "umt5": 6}.get(name, 2)
    assert len(calls) == layers
    option = {"gemma2": "softcap", "gpt_oss": "sinks", "llama4_text": "chunk"}.get(name, "bias")
    assert any(given[option] is not None for given in calls)


def test_prefix_language_model():
    """A prefix, which `token_type_ids` tell, sees itself in both directions; other blocks are refused."""
    model, free = pair("hrm_text", {**DECODER, "prefix_lm": True}, "HrmTextForCausalLM")
    types = [(torch.arange(len(r)) < len(r) // 3).long() for r in ROWS]
    alone = [model(input_ids=r[None], token_type_ids=y[None]).logits[0] for r, y in zip(ROWS, types, strict=True)]
    marked = sf.Ragged(torch.cat(types), LENGTHS)
    assert away(free(input_ids=IDS, token_type_ids=marked).logits.data, torch.cat(alone)) < 1e-5
    padded = free(**RIGHT, token_type_ids=pad(types, True, 0)).logits[RIGHT["attention_mask"].bool()]
    assert away(padded, torch.cat(alone)) < 1e-5
    assert away(free(input_ids=IDS).logits.data, torch.cat(alone)) > 1e-3
    with pytest.raises(TypeError, match="that are no prefixes"):
        free(input_ids=IDS, token_type_ids=sf.Ragged(1 - marked.data, LENGTHS))


@pytest.mark.parametrize("kind", ["BertModel", "BertForSequenceClassification"])
def test_token_types(kind):
    """They go with their tokens, as an encoding and padded."""
    model, free = pair("bert", _SMALL, kind)
    types = [(torch.arange(len(r)) > len(r) // 2).long() for r in ROWS]
    result = 0 if kind == "BertForSequenceClassification" else "pooler_output"
    alone = torch.cat(
        [model(input_ids=r[None], token_type_ids=y[None])[result] for r, y in zip(ROWS, types, strict=True)]
    )
    found = free(input_ids=IDS, token_type_ids=sf.Ragged(torch.cat(types), LENGTHS))[result]
    assert away(found, alone) < 1e-5
    assert away(free(**RIGHT, token_type_ids=pad(types, True, 0))[result], alone) < 1e-5
    assert away(free(input_ids=IDS)[result], alone) > 1e-4


class Nested(torch.nn.Module):
    """Two models of one config, one of which runs without padding, and calls the other in the middle of its forward."""

    def __init__(self):
        super().__init__()
        self.outer, self.inner = build("bert", ENCODER, "BertModel"), build("roberta", ENCODER, "RobertaModel")
        self.plain = transformers.BertModel(self.outer.config).eval()  # shares the config, and goes on padded
        sf.hf.padding_free(self.outer), sf.hf.padding_free(self.inner)
        self.seen = []
        self.outer.encoder.layer[0].register_forward_hook(lambda *_: self.seen.append(self.inner(IDS[2:5])[0].data))

    def forward(self, x):
        return self.outer(x)[0].data, self.plain(**RIGHT)[0]


def test_nested_models():
    """Each forward has its own boundaries to its end, whatever runs within it; other models of its config none."""
    both = Nested()
    states, plain = both(IDS)
    model, other = build("bert", ENCODER, "BertModel"), build("roberta", ENCODER, "RobertaModel")
    assert away(states, torch.cat([model(input_ids=r[None])[0][0] for r in ROWS])) < 1e-5
    assert away(both.seen[0], torch.cat([other(input_ids=r[None])[0][0] for r in ROWS[2:5]])) < 1e-5
    model.load_state_dict(both.plain.state_dict())
    assert away(plain, model(**RIGHT)[0]) < 1e-5


def test_errors_in_the_middle():
    """A forward that fails leaves nothing behind: the next has its own boundaries, and generate none."""
    model, free = pair("llama")
    handle = free.model.layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        free(input_ids=IDS)
    handle.remove()
    assert torch.equal(free.generate(**LEFT, max_new_tokens=3), model.generate(**LEFT, max_new_tokens=3))
    assert away(free(input_ids=IDS[1:4]).logits.data, torch.cat([model(r[None]).logits[0] for r in ROWS[1:4]])) < 1e-5


def test_replicas_in_threads():
    """What DataParallel runs: shallow copies of the modules, each in a thread, over its part of a padded batch."""
    model, free = pair("bert", _SMALL, "BertForSequenceClassification")

    def replica(module):
        made = module._replicate_for_data_parallel()
        made._parameters, made._buffers = dict(module._parameters), dict(module._buffers)
        for name, child in module._modules.items():
            made._modules[name] = replica(child)
        return made

    parts = [{key: x[i : i + 4] for key, x in RIGHT.items()} for i in (0, 4)]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda one, part: one(**part).logits, [replica(free), replica(free)], parts))
    assert away(torch.cat(found), model(**RIGHT).logits) < 1e-5


def test_training_with_generate_between():
    """Steps of training beside the model alone, with text generated between them."""
    model, free = pair("llama")
    steps = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, free)]
    for _ in range(3):
        expected = alone(model, True)
        for key, p in model.named_parameters():
            p.grad = expected.gradients.get(key)
        free.zero_grad()
        loss = free(input_ids=IDS, labels=sf.Ragged(torch.cat(expected.labels), LENGTHS)).loss
        loss.backward()
        assert away(loss, expected.loss) < 1e-4
        for step in steps:
            step.step()
        options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
        assert torch.equal(model.generate(**LEFT, **options), free.generate(**LEFT, **options))
        model.zero_grad()


def test_limits_of_positions():
    """A rotation that turns with the longest of a batch is refused where a batch has sequences on both sides of it."""
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    free = pair("llama", {**DECODER, "max_position_embeddings": 20, "rope_parameters": rope})[1]
    with pytest.raises(sf.ConversionError, match="turns all sequences"):
        free(input_ids=IDS)
    assert free(input_ids=IDS[3:5]).logits.data.isfinite().all()


def test_poisoned_sources():
    """A NaN in the states of one source stays with its target."""
    free = pair("t5")[1]
    sources, targets = drawn(SOURCES, 3), drawn(TARGETS, 4)
    embeds = free.get_input_embeddings()(torch.cat(sources)).detach()
    embeds[8:17] = float("nan")
    labels = sf.Ragged(torch.cat(targets), TARGETS)
    logits = free(inputs_embeds=sf.Ragged(embeds, SOURCES), labels=labels).logits
    assert [bool(x.isfinite().all()) for x in logits.sequences()] == [True, True, False, True, True]


def test_bad_calls():
    llama, bert = pair("llama")[1], pair("bert", ENCODER, "BertModel")[1]
    before = llama(input_ids=IDS).logits.data
    hole = RIGHT["attention_mask"].clone()
    hole[0, 3] = 0
    lone, ids, mask = torch.zeros(0, dtype=torch.long), RIGHT["input_ids"], RIGHT["attention_mask"]
    long, other = sf.Ragged(torch.arange(PLACES + 1), [PLACES + 1]), sf.Ragged(torch.cat(ROWS), [16, 2, *LENGTHS[2:]])
    for error, words, call in [
        (sf.StructureError, "row 0 of attention_mask has a hole", lambda: llama(ids, attention_mask=hole)),
        (sf.StructureError, "not one of pairs", lambda: llama(ids, attention_mask=mask[:, None, None])),
        (sf.StructureError, r"attention_mask is \(2, 40\)", lambda: llama(ids, attention_mask=hole[:2])),
        (sf.ConversionError, "weights of every pair", lambda: bert(IDS, output_attentions=True)),
        (sf.ConversionError, "the end of one row", lambda: llama(IDS, logits_to_keep=1)),
        (sf.ConversionError, "leave it out, or call generate", lambda: llama(IDS, use_cache=True)),
        (sf.ConversionError, "does not go with it", lambda: llama(IDS, attention_mask=mask)),
        (sf.StructureError, "put -100 there", lambda: llama(**RIGHT, labels=ids)),
        (sf.StructureError, "has 65 tokens, but the model positions for 64", lambda: bert(long)),
        (sf.StructureError, "no tokens", lambda: llama(sf.Ragged(lone, [0, 0]))),
        (sf.StructureError, "token_type_ids has other lengths", lambda: bert(IDS, token_type_ids=other)),
        (TypeError, "token_type_ids must be a batch", lambda: bert(IDS, token_type_ids=torch.cat(ROWS)[None])),
        (sf.ConversionError, "encoder_hidden_states= does", lambda: bert(IDS, encoder_hidden_states=lone)),
        (TypeError, "there is neither", lambda: llama()),
        (sf.StructureError, "but the row is", lambda: llama(torch.cat(ROWS)[None], cu_seq_lens_q=torch.tensor([0, 5]))),
        (TypeError, "no model of transformers", lambda: sf.hf.padding_free(torch.nn.Linear(2, 2))),
        (TypeError, "check must be True or False", lambda: sf.hf.padding_free(llama, check=1)),
    ]:  # fmt: skip
        with pytest.raises(error, match=words) as caught:
            call()
        assert caught.value.code
    assert torch.equal(llama(input_ids=IDS).logits.data, before)
    meta = build("llama").to("meta")
    with pytest.raises(sf.ConversionError, match="say check=False"):
        sf.hf.padding_free(meta)


@pytest.mark.parametrize("name", ["mamba", "deberta-v2", "bloom", "bert"])
@pytest.mark.parametrize("lengths", [[4, 2, 4, 1, 7], [3, 3], [1], [2]])
def test_by_length(name, lengths):
    """Every model, in the order of the batch; what is as wide as the sequences by chance too."""
    model = build(name)
    x = sf.Ragged(torch.cat(drawn(lengths, 5)), lengths)
    alone = [model(input_ids=r[None], output_hidden_states=True) for r in drawn(lengths, 5)]
    for encoding in (sf.Ragged, sf.Padded):
        out = sf.hf.by_length(model, sf.convert(x, encoding), output_hidden_states=True)
        assert out.logits.lengths.tolist() == lengths
        assert away(out.logits.data, torch.cat([o.logits[0] for o in alone])) < 1e-5
        assert away(out.hidden_states[1].data, torch.cat([o.hidden_states[1][0] for o in alone])) < 1e-5
    if name == "bert":
        classes = build("bert", {**ENCODER, "num_labels": 2}, "BertForSequenceClassification")
        out = sf.hf.by_length(classes, {"input_ids": x, "token_type_ids": sf.Ragged(x.data * 0, lengths)})
        expected = torch.cat([classes(input_ids=r[None]).logits for r in drawn(lengths, 5)])
        assert out.logits.shape == expected.shape
        assert away(out.logits, expected) < 1e-5
        out.logits.sum().backward()


def test_bad_calls_of_by_length():
    model = build("bert")
    for error, words, x in [
        (sf.StructureError, "sequence 1 is empty", sf.Ragged(ROWS[1], [1, 0])),
        (sf.StructureError, "no sequences", sf.Ragged(ROWS[1][:0], [])),
        (TypeError, "must be an encoding of tokens", RIGHT["input_ids"]),
        (sf.ConversionError, "labels= does not go", {"input_ids": IDS, "labels": IDS}),
        (sf.StructureError, "ids has other lengths than input_ids", {"input_ids": IDS, "token_type_ids": IDS[1:]}),
        (sf.StructureError, "no arguments", {}),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            sf.hf.by_length(model, x)
    with pytest.raises(TypeError, match="not a mapping"):
        sf.hf.by_length(model, IDS, return_dict=False)

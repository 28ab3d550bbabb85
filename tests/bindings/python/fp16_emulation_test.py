"""Twenty steps under precision fp16 against an emulation of the model, the optimizer and the loss scale in NumPy.

The emulation rounds to halves where engine/numbers.md says that the engine stores or multiplies them, and sums in
float64. The engine sums in float32, so a value next to a midpoint may round to the other half; the bounds allow for
that, and are far below the effect of a rounding that is left out. Outcomes and scales must be equal.
"""

import numpy

import hawser

VOCAB, CONTEXT, WIDTH, HEADS, HIDDEN, LAYERS, ROWS = 41, 10, 24, 3, 56, 2, 4
RATE, BETA1, BETA2, EPS, DECAY, CLIP = 2e-3, 0.9, 0.95, 1e-6, 0.1, 0.5
STEPS, INITIAL, GROWTH, BACKOFF, PATIENCE, MINIMUM = 20, 2.0**17, 3, 4.0, 2, 2.0


def half(x):
    with numpy.errstate(over="ignore"):
        return numpy.asarray(x).astype(numpy.float32).astype(numpy.float16).astype(numpy.float64)


def single(x):
    with numpy.errstate(over="ignore"):
        return numpy.asarray(x).astype(numpy.float32).astype(numpy.float64)


def norm(x, weight, bias):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    rstd = 1 / numpy.sqrt(variance + 1e-5)
    normal = (x - mean) * rstd
    return normal * weight + bias, normal, rstd


def norm_backward(dy, normal, rstd, weight):
    d = dy * weight
    dx = rstd * (d - d.mean(-1, keepdims=True) - normal * (d * normal).mean(-1, keepdims=True))
    return dx, (dy * normal).sum((0, 1)), dy.sum((0, 1))


def gelu(h):
    c = numpy.sqrt(2 / numpy.pi)
    t = numpy.tanh(c * (h + 0.044715 * h**3))
    return 0.5 * h * (1 + t), 0.5 * (1 + t) + 0.5 * h * (1 - t * t) * c * (1 + 3 * 0.044715 * h * h)


def outer(dy, x):
    return numpy.einsum("bti,btj->ij", dy, x)


def heads(x):
    return x.reshape(ROWS, CONTEXT, HEADS, -1).transpose(0, 2, 1, 3)


def flat(x):
    return x.transpose(0, 2, 1, 3).reshape(ROWS, CONTEXT, -1)


class Attention:
    def __init__(self, p, name, x):
        self.p, self.name, self.x = p, name, x
        q, k, v = (half(x @ half(p[f"{name}.{c}.weight"]).T + p[f"{name}.{c}.bias"]) for c in "qkv")
        self.q, self.k, self.v = heads(q), heads(k), heads(v)
        scores = self.q @ self.k.transpose(0, 1, 3, 2) / numpy.sqrt(WIDTH // HEADS)
        scores = numpy.where(numpy.tri(CONTEXT, dtype=bool), scores, -numpy.inf)
        e = numpy.exp(scores - scores.max(-1, keepdims=True))
        self.probability = e / e.sum(-1, keepdims=True)
        self.o = half(half(e) @ self.v / e.sum(-1, keepdims=True))
        self.y = flat(self.o) @ half(p[f"{name}.o.weight"]).T + p[f"{name}.o.bias"]

    def backward(self, dy, grads):
        p, name, scale = self.p, self.name, 1 / numpy.sqrt(WIDTH // HEADS)
        grads[f"{name}.o.weight"], grads[f"{name}.o.bias"] = outer(dy, flat(self.o)), dy.sum((0, 1))
        d_o = heads(half(dy @ half(p[f"{name}.o.weight"])))
        ds = self.probability * (d_o @ self.v.transpose(0, 1, 3, 2) - (d_o * self.o).sum(-1, keepdims=True))
        d = {"q": half(ds) @ self.k * scale, "k": half(ds).transpose(0, 1, 3, 2) @ self.q * scale,
             "v": half(self.probability).transpose(0, 1, 3, 2) @ d_o}  # fmt: skip
        dx = 0
        for c, value in d.items():
            value = half(flat(value))
            grads[f"{name}.{c}.weight"], grads[f"{name}.{c}.bias"] = outer(value, self.x), value.sum((0, 1))
            dx = dx + value @ half(p[f"{name}.{c}.weight"])
        return dx


class Mlp:
    def __init__(self, p, name, x):
        self.p, self.name, self.x = p, name, x
        self.h = half(x @ half(p[f"{name}.up.weight"]).T + p[f"{name}.up.bias"])
        self.a = half(gelu(self.h)[0])
        self.y = self.a @ half(p[f"{name}.down.weight"]).T + p[f"{name}.down.bias"]

    def backward(self, dy, grads):
        p, name = self.p, self.name
        grads[f"{name}.down.weight"], grads[f"{name}.down.bias"] = outer(dy, self.a), dy.sum((0, 1))
        dh = half(half(dy @ half(p[f"{name}.down.weight"])) * gelu(self.h)[1])
        grads[f"{name}.up.weight"], grads[f"{name}.up.bias"] = outer(dh, self.x), dh.sum((0, 1))
        return dh @ half(p[f"{name}.up.weight"])


def loss_and_gradients(p, tokens, targets, scale):
    """Returns the mean loss and the gradients, which are multiples of `scale`."""
    x = p["embedding.tokens.weight"][tokens] + p["embedding.positions.weight"][numpy.arange(CONTEXT)]
    parts = []
    for layer in range(LAYERS):
        for norm_name, branch, name in (("attention_norm", Attention, "attention"), ("mlp_norm", Mlp, "mlp")):
            at = f"blocks.{layer}.{norm_name}"
            y, normal, rstd = norm(x, p[f"{at}.weight"], p[f"{at}.bias"])
            module = branch(p, f"blocks.{layer}.{name}", half(y))
            x = x + module.y
            parts.append((at, module, normal, rstd))
    y, normal, rstd = norm(x, p["final_norm.weight"], p["final_norm.bias"])
    n, table = half(y), half(p["head.weight"])
    logits = n @ table.T
    e = numpy.exp(logits - logits.max(-1, keepdims=True))
    probability = e / e.sum(-1, keepdims=True)
    learned = targets >= 0
    count = learned.sum()
    one_hot = numpy.eye(VOCAB)[numpy.where(learned, targets, 0)]
    loss = -numpy.log((probability * one_hot).sum(-1))[learned].sum() / count
    dlogits = half((probability - one_hot) * learned[..., None] * single(1 / count) * scale)
    grads = {"head.weight": outer(dlogits, n)}
    dx, grads["final_norm.weight"], grads["final_norm.bias"] = norm_backward(
        half(dlogits @ table), normal, rstd, p["final_norm.weight"])  # fmt: skip
    for at, module, normal, rstd in reversed(parts):
        d, grads[f"{at}.weight"], grads[f"{at}.bias"] = norm_backward(
            module.backward(half(dx), grads), normal, rstd, p[f"{at}.weight"])  # fmt: skip
        dx = dx + d
    words, positions = numpy.zeros((VOCAB, WIDTH)), numpy.zeros((CONTEXT, WIDTH))
    numpy.add.at(words, tokens, dx)
    grads["embedding.tokens.weight"] = words
    positions[:] = dx.sum(0)
    grads["embedding.positions.weight"] = positions
    return loss, grads


class Scale:
    """The loss scale, as the schema describes it."""

    def __init__(self):
        self.now, self.good, self.bad = INITIAL, 0, 0

    def step(self, finite):
        self.good, self.bad = (self.good + 1, 0) if finite else (0, self.bad + 1)
        if self.bad == PATIENCE:
            self.now, self.bad = max(MINIMUM, self.now / BACKOFF), 0
        if self.good == GROWTH:
            self.now, self.good = 2 * self.now, 0


def emulate(p, batches):
    scale, accepted = Scale(), 0
    m, v = ({name: numpy.zeros_like(value) for name, value in p.items()} for _ in range(2))
    for tokens, targets in batches:
        now = scale.now
        with numpy.errstate(all="ignore"):
            loss, grads = loss_and_gradients(p, tokens, targets, now)
            size = numpy.sqrt(sum((g * g).sum() for g in grads.values())) / now
        finite = bool(numpy.isfinite(loss) and numpy.isfinite(size))
        scale.step(finite)
        if finite:
            accepted += 1
            for name, g in grads.items():
                g = g / now * min(1.0, CLIP / (size + 1e-6))
                m[name] = BETA1 * m[name] + (1 - BETA1) * g
                v[name] = BETA2 * v[name] + (1 - BETA2) * g * g
                update = m[name] / (1 - BETA1**accepted) / (numpy.sqrt(v[name] / (1 - BETA2**accepted)) + EPS)
                decay = DECAY if p[name].ndim > 1 else 0.0
                p[name] = p[name] - RATE * decay * p[name] - RATE * update
        yield finite, now, loss, size


def config():
    return {
        "precision": "fp16",
        "loss_scale": {"initial": INITIAL, "growth_every": GROWTH, "backoff": BACKOFF, "patience": PATIENCE,
                       "minimum": MINIMUM},
        "model": {"vocab_size": VOCAB, "context": CONTEXT, "layers": LAYERS, "width": WIDTH, "heads": HEADS,
                  "mlp": "gelu_tanh", "mlp_width": HIDDEN, "tied_head": False,
                  "dropout": {"embedding": 0.0, "attention": 0.0, "residual": 0.0}},
        "batch": {"micro_batch": ROWS, "sequence": CONTEXT},
        "optimizer": {"learning_rate": RATE, "beta1": BETA1, "beta2": BETA2, "eps": EPS, "weight_decay": DECAY,
                      "clip_norm": CLIP},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "guard": {"max_consecutive_skips": 3},
        "cpu": {"threads": 1},
    }  # fmt: skip


def distance(a, b):
    return numpy.linalg.norm(a - b) / numpy.linalg.norm(b)


def test_twenty_steps_are_those_of_the_emulation():
    random = numpy.random.default_rng(11)
    engine = hawser.Engine(config())
    p = {}
    for tensor in engine.tensors():
        matrix = len(tensor["shape"]) > 1
        value = random.normal(0, 0.3 if matrix else 0.1, tensor["shape"])
        if tensor["name"].endswith("norm.weight"):
            value += 1
        p[tensor["name"]] = single(value)
        engine.set_tensor(tensor["name"], value.astype(numpy.float32))
    batches = []
    for _ in range(STEPS):
        targets = random.integers(0, VOCAB, (ROWS, CONTEXT))
        targets[random.random(targets.shape) < 0.2] = -100
        batches.append((random.integers(0, VOCAB, (ROWS, CONTEXT)), targets))
    start = {name: value.copy() for name, value in p.items()}
    outcomes, scales = [], []
    for step, (finite, scale, loss, size) in enumerate(emulate(p, batches)):
        tokens, targets = batches[step]
        engine.push(tokens.astype(numpy.int32), targets.astype(numpy.int32))
        result = engine.train_step()
        assert result.outcome == (hawser.ACCEPTED if finite else hawser.SKIPPED_OVERFLOW), step
        assert engine.metrics()["loss_scale"] == scale, step
        assert abs(result.loss - loss) < 2e-4 * abs(loss), step
        if finite:
            assert abs(result.grad_norm - size) < 1e-3 * size, step
        outcomes.append(finite)
        scales.append(scale)
    assert not all(outcomes) and sum(outcomes) >= 8 and len(set(scales)) >= 4  # the scale fell and rose
    for name, value in p.items():
        if name.endswith("attention.k.bias"):  # softmax ignores it, so its gradient is rounding noise
            continue
        moved = numpy.linalg.norm(value - start[name])
        assert numpy.linalg.norm(engine.tensor(name) - value) < 0.02 * moved, name

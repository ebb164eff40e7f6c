"""The cases to measure: one row per model, with the settings of dptrain's configuration that both sides train it with."""
import dataclasses

SGD = dict(optimizer=dict(name="sgd", momentum=0.9), learning_rate=0.01)
ADAM = dict(optimizer="adam", learning_rate=1e-4)
BERT = dict(name="bert", vocab=8000, hidden=256, layers=8, heads=8, seq=163, dropout=0.1)
PHOTOGRAPHS = dict(name="synthetic", shape=[3, 32, 32])

PRECISIONS = ("fp32", "bf16")
# dptrain's devices: the strategy is `single` on one device and `ddp` on two.
OURS = {"single": ["cpu:0"], "ddp": ["cpu:0", "cpu:1"]}
# How peers are run: arguments of bench_pytorch.py, and the number of contexts of bench_mxnet.py.
PYTORCH = {"pytorch": [], "pytorch_fast": ["--fast"], "pytorch_ddp": ["--ranks", "2"]}
MXNET = {"mxnet_1": 1, "mxnet_2": 2}
PEERS = (*PYTORCH, *MXNET)
TITLES = {"single": "dptrain single", "ddp": "dptrain ddp, 2 devices", "pytorch": "PyTorch eager",
          "pytorch_fast": "PyTorch channels-last + compile", "pytorch_ddp": "PyTorch DDP, 2 processes",
          "mxnet_1": "MXNet, 1 context", "mxnet_2": "MXNet, 2 contexts"}

MEMORY_BAR = 0.6  # times the smallest memory of PyTorch's


@dataclasses.dataclass(frozen=True)
class SpeedBars:
    """Bars for dptrain's speed relative to the best peer."""
    fp32: float
    stretch: float  # for fp32, beyond the bar
    best: float     # each side in its fastest precision


SPEED_BARS = {
    "lenet": SpeedBars(fp32=2.0, stretch=2.5, best=2.0),
    "resnet18": SpeedBars(fp32=1.9, stretch=2.2, best=1.1),
    "pyramidnet": SpeedBars(fp32=2.0, stretch=2.4, best=1.2),
    "bert": SpeedBars(fp32=2.0, stretch=2.5, best=2.0),
}


@dataclasses.dataclass(frozen=True)
class Case:
    settings: dict            # of the configuration: model, data set with the samples of an epoch, optimizer
    batch: int
    epochs: int               # the first epoch warms up
    mxnet: bool = False       # whether bench_mxnet.py has the model
    ddp_bar: float | None = None  # how fast ddp on two devices must be, relative to single


CASES = {
    "lenet": Case(dict(model="lenet", dataset=dict(name="mnist", limit=31 * 256), **SGD), 256, 5, mxnet=True, ddp_bar=0.95),
    "resnet18": Case(dict(model="resnet18", dataset=dict(name="mnist", limit=10 * 64), **SGD), 64, 4, mxnet=True, ddp_bar=0.9),
    "pyramidnet": Case(dict(model="pyramidnet", dataset=dict(PHOTOGRAPHS, samples=4 * 16), **SGD), 16, 3),
    "bert": Case(dict(model=BERT, dataset=dict(name="synthetic", samples=6 * 8, full=True), **ADAM), 8, 3),
}

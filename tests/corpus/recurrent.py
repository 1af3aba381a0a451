"""Recurrent layers of torch.nn."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.corpus.rows import Row, layer, ramp

SEQUENCE = ramp(4, 2, 3)
BATCHED = ramp(2, 4, 3)
STEP = ramp(2, 3)


def _packed(module: nn.Module, x: Tensor) -> Tensor:
    packed = pack_padded_sequence(x, torch.tensor([4, 3]))
    result: Tensor = pad_packed_sequence(module(packed)[0])[0]
    return result


ROWS: tuple[Row, ...] = (
    layer("RNN", lambda: nn.RNN(3, 4), SEQUENCE),
    layer("RNN relu", lambda: nn.RNN(3, 4, nonlinearity="relu"), SEQUENCE),
    layer("LSTM", lambda: nn.LSTM(3, 4), SEQUENCE),
    layer("LSTM batch first", lambda: nn.LSTM(3, 4, batch_first=True), BATCHED),
    layer("LSTM two layers", lambda: nn.LSTM(3, 4, 2), SEQUENCE),
    layer("LSTM bidirectional", lambda: nn.LSTM(3, 4, bidirectional=True), SEQUENCE),
    layer("LSTM projection", lambda: nn.LSTM(3, 4, proj_size=2), SEQUENCE),
    layer("LSTM without bias", lambda: nn.LSTM(3, 4, bias=False), SEQUENCE),
    layer("GRU", lambda: nn.GRU(3, 4), SEQUENCE),
    layer("GRU bidirectional", lambda: nn.GRU(3, 4, bidirectional=True), SEQUENCE),
    layer("LSTM packed", lambda: nn.LSTM(3, 4), SEQUENCE, call=_packed),
    layer("GRU packed", lambda: nn.GRU(3, 4), SEQUENCE, call=_packed),
    layer("RNNCell", lambda: nn.RNNCell(3, 4), STEP),
    layer("LSTMCell", lambda: nn.LSTMCell(3, 4), STEP),
    layer("GRUCell", lambda: nn.GRUCell(3, 4), STEP),
)


# Appended to a published solution of problem 06, this makes it a rival of board-experts.
_models = {}


def run(x, w, w_up, offsets):
    key = x.data_ptr(), w.data_ptr()
    if key not in _models:
        experts, terms, columns = w.shape
        with x.device:
            model = Model(len(x), terms, columns, experts, 1)  # noqa: F821
        model.W_gate = torch.nn.Parameter(w, requires_grad=False)  # noqa: F821
        model.W_up = torch.nn.Parameter(w_up, requires_grad=False)  # noqa: F821
        _models[key] = model
    with torch.no_grad():  # noqa: F821
        return _models[key](x, offsets)

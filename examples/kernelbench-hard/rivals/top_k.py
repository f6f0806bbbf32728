
# Appended to a published solution of problem 05, this makes it a rival of top-k-f32.
_models = {}


def run(x, K):
    key = x.data_ptr()
    if key not in _models:
        with x.device:
            _models[key] = Model(*x.shape, K)  # noqa: F821
    values, indices = _models[key](x)
    return values, indices

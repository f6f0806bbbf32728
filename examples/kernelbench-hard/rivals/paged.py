
# Appended to a published solution of problem 03, this makes it a rival of board-paged.
_models = {}


def run(q, kv, lengths, page_table, Sk):
    batch, heads, _, size = q.shape
    key = q.data_ptr(), kv.data_ptr()
    if key not in _models:
        with q.device:
            _models[key] = Model(batch, heads, kv.shape[2], size, Sk, kv.shape[1])  # noqa: F821
    return _models[key](q.view(batch, heads, size), kv, page_table, lengths).view_as(q)

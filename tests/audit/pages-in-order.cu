/*
about = "Takes pages in the order of the cache, and does not look at the table."
kind = "broken"
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 3, H = 4, Hkv = 2, Sq = 2, Sk = 96, D = 32, CAUSAL = 0, LENGTHS = 1, SHORTEST = 5, PAGE = 16, PAGES = 20 }
constants = ["D", "CAUSAL", "LENGTHS", "PAGE"]
prelude = ["dims", "pages"]

[[constraint]]
expr = "SHORTEST <= Sk && PAGES >= B * (Sk / PAGE)"
why = "Each batch entry needs room for its keys, and pages of its own."

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "lengths?", "page_table?", "o", "H", "Hkv", "Sq", "Sk", "scale"]
*/
__device__ int keys_read(int length) { return length; }
__device__ int page_of(const int* table, int entry, int key, int pages) { return entry * pages + key / PAGE; }  // <--

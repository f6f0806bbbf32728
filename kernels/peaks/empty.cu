// What a launch costs by itself, as a node of a replayed graph.

extern "C" __global__ void empty() {}

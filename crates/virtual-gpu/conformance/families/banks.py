"""Cases that only differ in which shared addresses the lanes of one warp ask for: what a bank conflict is."""

LANES = 32


def patterns():
    """Yields a name and, per lane, the index of the element that it asks for."""
    yield "same", [0] * LANES
    yield "next", list(range(LANES))
    yield "back", list(range(LANES))[::-1]
    yield "two_apart", [2 * lane for lane in range(LANES)]
    yield "three_apart", [3 * lane for lane in range(LANES)]
    yield "row_apart", [32 * lane % 512 + lane // 16 for lane in range(LANES)]
    yield "halves", [5 * (lane // 16) for lane in range(LANES)]
    yield "quarters", [5 * (lane // 8) for lane in range(LANES)]
    for period in [2, 4, 8, 16]:
        yield f"period_{period}", [lane % period for lane in range(LANES)]
        yield f"runs_of_{period}", [lane // period for lane in range(LANES)]
    state = 1
    for number in range(6):
        picked = []
        for _ in range(LANES):
            state = (state * 1103515245 + 12345) % 2**31
            picked.append((state >> 16) % (64 << number % 3))
        yield f"random_{number}", picked


def kernel(store, bytes_):
    """Returns the text of a kernel that loads or stores `bytes_` bytes per lane at the offsets of a table."""
    words = bytes_ // 4
    vector, registers = ("", "%r10") if words == 1 else (f".v{words}", "{" + ", ".join(f"%r{10 + i}" for i in range(words)) + "}")
    name = f"{'store' if store else 'load'}{bytes_}"
    lines = [
        ".reg .b32 %r<20>;",
        ".reg .b64 %l<4>;",
        ".shared .align 16 .b8 buffer[16384];",
        "mov.u32 %r0, %tid.x;",
        "ld.param.u64 %l0, [offsets];",
        "mad.wide.u32 %l0, %r0, 4, %l0;",
        "ld.global.u32 %r1, [%l0];",
        "mov.u32 %r2, buffer;",
        "add.u32 %r1, %r1, %r2;",
        *[f"mad.lo.u32 %r{10 + i}, %r0, 7, {i};" for i in range(words)],
    ]
    if store:
        lines += [f"st.shared{vector}.b32 [%r1], {registers};", "mov.u32 %r3, %r0;"]
    else:
        # Not with addresses: where shared memory starts is the machine's business.
        lines += [
            "mad.lo.u32 %r4, %r0, 512, %r2;",
            "mov.u32 %r5, 0;",
            "FILL:",
            "add.u32 %r6, %r4, %r5;",
            "st.shared.v4.b32 [%r6], {%r5, %r0, %r5, %r0};",
            "add.u32 %r5, %r5, 16;",
            "setp.lt.u32 %p0, %r5, 512;",
            "@%p0 bra FILL;",
            "bar.sync 0;",
            f"ld.shared{vector}.b32 {registers}, [%r1];",
            "mov.u32 %r3, %r10;",
            *[f"xor.b32 %r3, %r3, %r{10 + i};" for i in range(1, words)],
        ]
    lines += ["ld.param.u64 %l1, [out];", "mad.wide.u32 %l1, %r0, 4, %l1;", "st.global.u32 [%l1], %r3;", "ret;"]
    body = "".join(f"\t{line}\n" for line in [".reg .pred %p<2>;", *lines])
    return name, f".visible .entry {name}(.param .u64 offsets, .param .u64 out)\n{{\n{body}}}\n"


def add(suite):
    """Adds the family."""
    for store in [False, True]:
        for bytes_ in [4, 8, 16]:
            name, text = kernel(store, bytes_)
            suite.kernel("banks.ptx", text)
            for pattern, elements in patterns():
                data = b"".join((element * bytes_).to_bytes(4, "little") for element in elements)
                table = suite.table(f"banks.{pattern}.{bytes_}", {"hex": data.hex()})
                # Stores of several lanes to one place leave any of their values, so what was stored is not read back.
                out = [(pattern, "u32", LANES, "exact")]
                suite.case("banks.ptx", f"{name}_{pattern}", [table, "out"], out, kernel=name, block=LANES)

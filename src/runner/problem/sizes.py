# Dimensions.


def samples(value):
    return [value + 1, value + 2, value + 3, value + 4, 2 * value, 2 * value + 1, 3 * value]


def free_sizes(tracer, sizes):
    """Returns the sizes that may change, in the order of the file: extents of inputs, and the first ones of parameters."""
    base = tracer.first.numbers()
    free = []
    for name, value in sizes.items():
        next_one = tracer.at(**{name: value + 1})
        if next_one is None or next_one.keys() != base.keys():
            continue
        is_place = lambda key: key[0] == "input" and type(key[2]) is int or key[0] == "state" and key[2] == 0
        own = [key for key in base if is_place(key) and (base[key], next_one[key]) == (value, value + 1)]
        found = [tracer.at(**{name: other}) for other in samples(value)] if own else [None]
        if all(one and any(one[key] == other for key in own) for one, other in zip(found, samples(value))):
            free.append(name)
    return free


def least_of(tracer, name, value):
    """Returns the smallest size with which the problem is one."""
    if tracer.at(**{name: 1}):
        return 1
    bad, good = 1, value
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (bad, middle) if tracer.at(**{name: middle}) else (middle, good)
    return good


def plus(text, number):
    return text if number == 0 else f"{text} + {number}" if number > 0 else f"{text} - {-number}"


def of_one(name, pairs):
    """Returns an expression of one size, from pairs of the size and the number. None if there is none."""
    for step in range(1, MOST_STEP + 1):
        for factor in range(1, MOST_STEP + 1) if step == 1 else [1, 2, 4]:
            (size, number), most = pairs[0], factor * max(abs(number) for _, number in pairs)
            for rest in range(number * step - factor * size, number * step - factor * size + step):
                if all((factor * size + rest) // step == number and factor * size + rest >= 0 for size, number in pairs):
                    product = name if factor == 1 else f"{factor} * {name}"
                    return plus(product, rest) if step == 1 else f"({plus(product, rest)}) / {step}"
    for group in range(MOST_STEP + 1, MOST_GROUP + 1):
        # The last group may be shorter, or left out.
        for rest in (group - 1, 0):
            if all((size + rest) // group == number for size, number in pairs):
                return f"({plus(name, rest)}) / {group}"
    (size, number) = pairs[0]
    factor = number // max(size, 1)
    if all(factor * size == number for size, number in pairs):
        return f"{factor} * {name}"
    slope = (pairs[1][1] - number) // max(pairs[1][0] - size, 1)
    if all(slope * other + number - slope * size == value for other, value in pairs):
        return plus(f"{slope} * {name}", number - slope * size)
    return None


def expressions(tracer, dims):
    """Returns each number as an expression of the sizes that determine it. The second value names a size that fits no expression."""
    base, values = tracer.first.numbers(), tracer.base
    points = {name: [(values[name], base)] for name in dims}
    for name in dims:
        for other in [*samples(values[name]), values[name] - 1]:
            found = other > 0 and tracer.at(**{name: other})
            if found and found.keys() == base.keys():
                points[name].append((other, found))
    # Some sizes must be even, or a multiple of more.
    ways = (lambda size, place: size + 1 + place, lambda size, place: size + 2 + 2 * place, lambda size, _: 2 * size)
    for way in ways:
        joint = {name: way(values[name], place) for place, name in enumerate(dims)}
        together = tracer.at(**joint) if dims else base
        if together:
            break
    if dims and not together:
        return None, dims[-1]
    texts = {}
    for key, number in base.items():
        by = [name for name in dims if any(found[key] != number for _, found in points[name])]
        if not by:
            texts[key] = str(number)
            if together[key] != number:
                return None, dims[-1]
            continue
        pairs = {name: [(size, found[key]) for size, found in points[name]] for name in by}
        if len(by) == 1:
            text = of_one(by[0], pairs[by[0]])
        else:
            text = of_several(by, pairs, number, values)
        if text is None or eval(text.replace("/", "//"), dict(joint)) != together[key]:
            return None, by[-1]
        texts[key] = text
    return texts, None


def of_several(by, pairs, number, values):
    """Returns a product or a sum of sizes that gives a number."""
    product = math.prod(values[name] for name in by)
    if number % product == 0:
        text = " * ".join([str(number // product)] * (number != product) + by)
        if all(eval(text, {**values, name: size}) == found for name in by for size, found in pairs[name]):
            return text
    if product % number == 0:
        text = f"{' * '.join(by)} / {product // number}"
        if all(eval(text.replace("/", "//"), {**values, name: size}) == found for name in by for size, found in pairs[name]):
            return text
    slopes = {}
    for name in by:
        (size, first), (other, second) = pairs[name][:2]
        slopes[name] = (second - first) // (other - size)
    rest = number - sum(slopes[name] * values[name] for name in by)
    if any(slope <= 0 for slope in slopes.values()):
        return None
    text = plus(" + ".join(name if slope == 1 else f"{slope} * {name}" for name, slope in slopes.items()), rest)
    if all(eval(text, {**values, name: size}) == found for name in by for size, found in pairs[name]):
        return text
    return None



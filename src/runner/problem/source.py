# The text of the oracle.


def whole(node):
    """Returns the value of a whole number that is written out, such as `2048 * 2`."""
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
    except Exception:
        return None
    return value if type(value) is int and value > 0 else None


def assigned(node):
    """Returns the names that a statement gives whole numbers, with the numbers."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        pairs = [(node.target, node.value)]
    elif isinstance(node, ast.Assign):
        pairs = []
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs += zip(target.elts, node.value.elts)
            else:
                pairs.append((target, node.value))
    else:
        return {}
    found = {target.id: whole(value) for target, value in pairs if isinstance(target, ast.Name)}
    return {name: value for name, value in found.items() if value}


class Source:
    """The text of a problem."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.tree = ast.parse(self.text, self.name)
        self.sizes = {}
        for node in self.tree.body:
            self.sizes.update(assigned(node))
        defined = {node.name for node in self.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        for name, what in [("Model", "class"), ("get_inputs", "function"), ("get_init_inputs", "function")]:
            if name not in defined:
                raise Refused(
                    f"it has no {what} `{name}`: a problem has a class `Model`, and functions `get_inputs` and `get_init_inputs`"
                )

    def oracle(self, support, sizes, arguments=(), states=None):
        """Returns the file as a function of sizes, and what computes it."""
        lines = self.text.splitlines()
        inside = self.inside_strings()
        imports, taken = [], set()
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                place = range(node.lineno - 1, node.end_lineno)
                imports += [lines[at] for at in place]
                taken.update(place)
        after = {}
        for node in self.tree.body:
            names = [name for name in assigned(node) if name in sizes]
            after[node.end_lineno - 1] = [f"{name} = sizes.get({name!r}, {name})" for name in names]
        body = []
        for at, line in enumerate(lines):
            if at not in taken:
                body.append(line if at in inside or not line.strip() else "    " + line)
            body += ["    " + added for added in after.get(at, [])]
        body = "\n".join(body).strip("\n")
        future = [line for line in imports if line.startswith("from __future__")]
        imports = [line for line in imports if line not in future]
        return "\n".join([
            f"# Made of {self.name} by optloop import.", *future, *imports, "", "",
            "def problem(sizes):", '    """The file as it is, with other sizes."""', body,
            "    return Model, get_inputs, get_init_inputs", "", "",
            "# The dimensions, the tensors of `get_inputs`, and the parameters and buffers of the module, by what they are called here.",
            f"SIZES = {list(sizes)!r}", f"ARGUMENTS = {list(arguments)!r}", f"STATES = {dict(states or {})!r}", "", support,
        ])

    def inside_strings(self):
        """Returns the lines that begin within a string, which must stay as they are."""
        inside = set()
        for token in tokenize.generate_tokens(StringIO(self.text).readline):
            if token.start[0] < token.end[0] and token.type not in (tokenize.NEWLINE, tokenize.NL):
                inside.update(range(token.start[0], token.end[0]))
        return inside


def loaded(text, file):
    # Errors tell the line of the user's file.
    names = {"__name__": "oracle"}
    exec(compile(text, file, "exec"), names)
    return names



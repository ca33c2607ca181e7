#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Each gate finds what it is there to find, and lets through what it must."""
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cancelled  # noqa: E402
import circles  # noqa: E402
from gate import (calls, environment, files, functions, includes, readmes,  # noqa: E402
                  sentences, services, text)

HEAD = "// SPDX-License-Identifier: MIT\n"
DEEP = "if (a) { for (;;) while (b) switch (c) { case 1: if (d) e(); } }"


def with_tree(contents, gate):
    """What @gate(top, paths, sources) finds in a tree of name -> text."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for name, content in contents.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(content)
        paths = files.tracked(top)
        sources = [files.Source(top, p) for p in paths if p.suffix in (".c", ".h")]
        return list(gate(top, paths, sources))


def function(body, parameters="void", waiver=""):
    return {"src/util/x.c": f"{HEAD}{waiver}static int f({parameters})\n{{\n{body}\n}}\n"}


def measured(_top, _paths, sources):
    return functions.measure(sources)


def ranked(_top, _paths, sources):
    return [*includes.ranks(sources), *includes.cycles(sources)]


def left(top, paths, sources):
    return text.leftovers(top, paths, sources)


def wide(top, paths, _sources):
    return text.width(top, paths)


def lengthy(_top, _paths, sources):
    return text.length(sources)


def crowded(_top, paths, _sources):
    return text.crowds(paths)


def documented(top, paths, _sources):
    return text.readmes(top, paths)


def marked(top, paths, _sources):
    return [*text.spdx(top, paths), *text.file_names(paths)]


def seamed(_top, _paths, sources):
    return includes.seams(sources)


def told(top, paths, sources):
    return readmes.true(top, paths, sources)


def read(readme):
    return {"src/hca/a.c": '#include "util/b.h"\n', "src/hca/README.md": readme}


def typed(_top, _paths, sources):
    return services.types(sources)


def sentence(_top, _paths, sources):
    return sentences.remedies(sources)


def variables(_top, _paths, sources):
    return environment.insecure(sources)


NOTE = "TO" + "DO"
CASES = [
    ("80 lines pass", function("\n" * 76), measured, 0),
    ("81 lines do not", function("\n" * 77), measured, 1),
    ("a waiver counts", function("\n" * 77, waiver="/* gate: length: a table */\n"), measured, 0),
    ("a waiver for something else does not",
     function("\n" * 77, waiver="/* gate: nesting: a table */\n"), measured, 1),
    ("six parameters pass", function("", "int a, int b, int (*c)(int, int), int d, int e, int f"),
     measured, 0),
    ("seven do not", function("", "int a, int b, int c, int d, int e, int f, int g"), measured, 1),
    ("15 branches pass", function("if (a) b();\n" * 15), measured, 0),
    ("16 do not", function("if (a) b();\n" * 15 + "return a ? b : c;"), measured, 1),
    ("cases are branches", function("switch (a) {" + "case 1: b();\n" * 16 + "}"), measured, 1),
    ("else if is not deeper", function("if (a) b(); " + "else if (c) d(); " * 8), measured, 0),
    ("nesting of 5", function(DEEP), measured, 1),
    ("braces in an initializer are no nesting", function("struct s a = {{{{{{1}}}}}};"),
     measured, 0),
    ("a loop by macro nests", function("each (a, b) { each (c, d) { each (e, f) { each (g, h) {"
                                       " if (i) j(); } } } }"), measured, 1),
    ("both sides of #if balance", function("#ifdef A\nif (a) {\n#else\nif (b) {\n#endif\nc(); }"),
     measured, 0),
    ("a string hides braces", function('a("{{{{ if if if"); b(\'{\');'), measured, 0),
    ("a lower rank", {"src/hca/a.c": '#include "util/b.h"\n'}, ranked, 0),
    ("a higher rank", {"src/util/a.c": '#include "hca/b.h"\n'}, ranked, 1),
    ("the same rank elsewhere", {"src/hca/a.c": '#include "link/b.h"\n'}, ranked, 1),
    ("a cycle", {"src/hca/a.h": '#include "hca/b.h"\n', "src/hca/b.h": '#include "a.h"\n'},
     ranked, 1),
    ("a header of the seam", {"src/driver/a.c": '#include "engine/doorbell.h"\n'}, seamed, 0),
    ("a header past the seam", {"src/driver/a.c": '#include "engine/turn.h"\n'}, seamed, 1),
    ("a link by the file that names links", {"src/engine/node.c": '#include "udp/udp_link.h"\n'},
     seamed, 0),
    ("a link by another file", {"src/engine/a.c": '#include "udp/udp_link.h"\n'}, seamed, 1),
    ("a true README", read("# hca (rank 2)\n`a`: it. Includes `util/`.\n"), told, 0),
    ("another rank", read("# hca (rank 3)\n`a`: it. Includes `util`.\n"), told, 1),
    ("an include that it does not tell", read("# hca (rank 2)\n`a`: it.\n"), told, 1),
    ("one that is none", read("# hca (rank 2)\n`a`. Includes `util`, `wire`.\n"), told, 1),
    ("a file that it does not name", read("# hca (rank 2)\nIncludes `util`.\n"), told, 1),
    ("files by a star",
     {**read("# hca (rank 2)\n`a*`. Includes `util`.\n"), "src/hca/ab.h": ""}, told, 0),
    ("a note to do", {"a.c": f"/* {NOTE}: later */\n"}, left, 1),
    ("#if 0", {"a.c": "#if 0\n#endif\n"}, left, 1),
    ("a call in a comment", {"a.c": "// free(mr);\n"}, left, 1),
    ("an assignment in a comment", {"a.c": "/* a->b = c; */\n"}, left, 1),
    ("prose in a comment", {"a.c": "/* the producer's until tail covers it; then ours */\n"},
     left, 0),
    ("100 columns pass", {"a.c": "\t" + "x" * 92 + "\n"}, wide, 0),
    ("101 do not", {"a.c": "\t" + "x" * 93 + "\n"}, wide, 1),
    ("800 lines pass", {"a.c": "\n" * 800}, lengthy, 0),
    ("801 do not", {"a.c": "\n" * 801}, lengthy, 1),
    ("45 names in a folder pass", {f"src/a/{n}.{s}": "" for n in range(45) for s in "ch"},
     crowded, 0),
    ("46 do not", {f"src/a/{n}.h": "" for n in range(46)}, crowded, 1),
    ("in src alone", {f"tests/a/{n}.h": "" for n in range(46)}, crowded, 0),
    ("a waived file", {"a.c": "/* gate: file-length: one table */\n" + "\n" * 800}, lengthy, 0),
    ("a folder in a folder has a README",
     {"src/a/README.md": "", "src/a/b/README.md": "", "src/a/b/c.h": ""}, documented, 0),
    ("and none has not", {"src/a/README.md": "", "src/a/b/c.h": ""}, documented, 1),
    ("no SPDX line", {"a.c": "int a;\n"}, marked, 1),
    ("a forbidden name", {"src/hca/common.c": HEAD}, marked, 1),
    ("the folder verbs may be called so", {"src/verbs/pd.c": HEAD}, marked, 0),
    ("a type of queue pair", {"src/driver/a.c": "int a = IBV_QPT_RC;\n"}, typed, 1),
    ("a type in a macro", {"src/driver/a.h": "#define A IBV_QPT_RC\n"}, typed, 1),
    ("a type in a comment", {"src/driver/a.c": "/* IBV_QPT_RC */\n"}, typed, 0),
    ("a type with a reason",
     {"src/driver/a.c": "/* gate: services: its name */\nint a = IBV_QPT_RC;\n"}, typed, 0),
    ("a sentence without a remedy",
     {"src/a.c": 'int a(int b) { return refuse(b, "call: b is %d, "\n"a is 3", b); }\n'},
     sentence, 1),
    ("nor does that of a work request", {"src/a.c": 'reason("QP 0x%x: no memory", qpn);\n'},
     sentence, 1),
    ("one with a remedy",
     {"src/a.c": 'int a(int b) { return refuse(f(b, 1), "call: b is %d; "\n"give 1", b); }\n'},
     sentence, 0),
    ("a sentence with a waiver",
     {"src/a.c": '/* gate: sentences: it is over */\nint a(void) { return refuse(1, "x"); }\n'},
     sentence, 0),
    ("a type where services are described", {"src/hca/service.c": "int a = IBV_QPT_RC;\n"},
     typed, 0),
    ("a type in a test", {"tests/unit/a.c": "int a = IBV_QPT_RC;\n"}, typed, 0),
    ("a variable that set-uid programs heed",
     {"src/a.c": 'char *a(void) { return getenv("A"); }\n'}, variables, 1),
    ("the same in the view library",
     {"tools/redirect/a.c": 'char *a(void) { return getenv("A"); }\n'}, variables, 1),
    ("one that they ignore", {"src/a.c": 'char *a(void) { return secure_getenv("A"); }\n'},
     variables, 0),
    ("a variable with a reason",
     {"src/a.c": '/* gate: environment: its own */\nchar *a(void) { return getenv("A"); }\n'},
     variables, 0),
    ("a variable of the tool", {"tools/a.c": 'char *a(void) { return getenv("A"); }\n'},
     variables, 0),
]


def unit(code, *headers):
    return "".join(f'#include "a/{name}.h"\n' for name in headers) + code


OPS = "struct ops { void (*send)(void); void (*stop)(void); };\nextern const struct ops x_ops;\n"
OTHER = "struct other { void (*send)(void); };\n"
X = {"x.h": "void x(void);\n", "y.h": "void y(void);\n"}
DIRECT = {**X, "x.c": unit("void x(void) { y(); }", "x", "y"),
          "y.c": unit("void y(void) { x(); }", "x", "y")}
ONE_WAY = {**DIRECT, "y.c": unit("void y(void) { }", "y")}
TABLE = {"ops.h": OPS, "y.h": "void y(const struct ops *o);\n",
         "x.c": unit("static void sent(void) { y(&x_ops); }\n"
                     "const struct ops x_ops = { .send = sent };\n", "ops", "y"),
         "y.c": unit("void y(const struct ops *o) { o->send(); }\n", "ops", "y")}
WRAPPED = {**TABLE, "ops.h": OPS + "static inline void send(const struct ops *o) { o->send(); }\n",
           "z.h": "void z(void);\n",
           "y.c": unit("void y(const struct ops *o) { (void)o; }\n", "ops", "y"),
           "z.c": unit("void z(void) { send(&x_ops); y(&x_ops); }\n", "ops", "y", "z")}
PASSED = {"x.h": "void x(void);\n", "y.h": "void y(void (*f)(void));\n",
          "y.c": unit("void y(void (*f)(void)) { f(); }\n", "y"),
          "x.c": unit("static void back(void) { }\nvoid x(void) { y(back); }\n", "x", "y")}
KEPT = {**PASSED, "ops.h": OPS, "y.h": "void y(struct ops *o, void (*f)(void));\n",
        "y.c": unit("void y(struct ops *o, void (*f)(void)) { o->stop = f; }\n", "ops", "y"),
        "z.h": "void z(struct ops *o);\n",
        "z.c": unit("void z(struct ops *o) { o->stop(); }\n", "ops", "z"),
        "x.c": unit("static void back(void) { z(0); }\nvoid x(void) { y(0, back); }\n",
                    "x", "ops", "y", "z")}
PUBLIC = {**DIRECT, "x.h": "#include <public.h>\n", "/public.h": X["x.h"]}
OTHERS_FIRST = "static void none(void) { }\nvoid other(void);\nvoid other(void) { none(); }\n"
BELOW = {"x.h": X["x.h"], "b/y.h": X["y.h"],
         "x.c": unit("void x(void) { y(); }", "x", "b/y"),
         "b/y.c": unit("void y(void) { x(); }", "x", "b/y")}
NAMESAKES = {"x.h": X["x.h"], "b/x.h": X["y.h"],
             "x.c": unit("void x(void) { y(); }", "x", "b/x"),
             "b/x.c": unit("void y(void) { x(); }", "x", "b/x")}

# (name, the files of src/a and, with a / before their names, of a folder outside, the waivers, how
# many folders or waivers are wrong)
CIRCLES = [
    ("calls one way", ONE_WAY, "", 0),
    ("a direct circle", DIRECT, "", 1),
    ("a circle through a macro",
     {**DIRECT, "x.h": "void x(void);\n#define CALL x()\n",
      "y.c": unit("void y(void) { CALL; }", "x", "y")}, "", 1),
    ("a static of the same name is another function",
     {**ONE_WAY, "y.c": unit("static void own(void) { }\nvoid y(void) { own(); }", "y"),
      "z.h": "void z(void);\n",
      "z.c": unit("static void own(void) { x(); }\nvoid z(void) { own(); }", "x", "z")}, "", 0),
    ("x.c and x.h are one file",
     {**X, "x.h": "static void x(void);\nstatic inline void own(void) { x(); }\n",
      "x.c": unit("static void x(void) { if (0) own(); }", "x")}, "", 0),
    ("a pointer that a table holds", TABLE, "", 1),
    ("a pointer that a field was given",
     {**TABLE, "x.c": unit("static void sent(void) { y(0); }\nvoid x(struct ops *o);\n"
                           "void x(struct ops *o) { o->send = sent; }\n", "ops", "y")}, "", 1),
    ("a pointer that a function was given", PASSED, "", 1),
    ("a pointer that a function was given and keeps", KEPT, "", 1),
    ("a function that a header outside declares", PUBLIC, "", 1),
    ("one that calls nobody",
     {**PUBLIC, "x.c": unit("void x(void) { }", "x")}, "", 0),
    ("a pointer that such a function was given and keeps",
     {**KEPT, "y.h": "#include <public.h>\n", "/public.h": "struct ops;\n" + KEPT["y.h"],
      "y.c": unit(OTHERS_FIRST + "void y(struct ops *o, void (*f)(void)) { o->stop = f; }\n",
                  "ops", "y")}, "", 1),
    ("a circle through a subfolder", BELOW, "", 1),
    ("calls one way into a subfolder", {**BELOW, "b/y.c": ONE_WAY["y.c"].replace("a/", "a/b/")},
     "", 0),
    ("a circle of files of one name", NAMESAKES, "", 1),
    ("a good waiver of a subfolder", BELOW, "src/a: b/y -> x: a reason\n", 0),
    ("another field of the struct",
     {**TABLE, "y.c": unit("void y(const struct ops *o) { o->stop(); }\n", "ops", "y")}, "", 0),
    ("a field of that name in another struct",
     {**TABLE, "y.c": unit(OTHER + "void y(const struct ops *o) { struct other *other = (void *)o;"
                           " other->send(); }\n", "ops", "y")}, "", 0),
    ("an inline wrapper beside the struct calls for its caller", WRAPPED, "", 0),
    ("and its caller is in the circle",
     {**WRAPPED, "y.c": unit("void y(const struct ops *o) { send(o); }\n", "ops", "y")}, "", 1),
    ("a good waiver", DIRECT, "src/a: x -> y: a reason\n", 0),
    ("a waiver for the folder", DIRECT, "src/a: *: being cut\n", 0),
    ("a waiver that no circle needs", ONE_WAY, "src/a: x -> y: a reason\n", 1),
    ("one for the folder that no circle needs", ONE_WAY, "src/a: *: being cut\n", 1),
    ("a waiver for a call that nobody makes", DIRECT,
     "src/a: x -> y: a reason\nsrc/a: x -> z: a reason\n", 1),
    ("a waiver for a folder that is not there", ONE_WAY, "src/b: x -> y: a reason\n", 1),
]


def in_circles(contents, waivers):
    """How many findings circles.py has in a folder src/a of these files."""
    with tempfile.TemporaryDirectory() as folder:
        top, outside, commands = Path(folder).resolve() / "top", Path(folder) / "outside", []
        flags = f"-I{top}/src -isystem {outside}"
        for name, content in contents.items():
            path = outside / name[1:] if name.startswith("/") else top / "src/a" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            if name.endswith(".c"):
                commands.append({"directory": str(top), "file": f"src/a/{name}",
                                 "command": f"cc {flags} -c src/a/{name} -o {path.stem}.o"})
        (top / "compile_commands.json").write_text(json.dumps(commands))
        found = calls.all_edges(top, top)
        return circles.report(found, list(circles.waivers(waivers)), tell=lambda _line: None)


def refuses_a_waiver_without_reason():
    try:
        list(circles.waivers("src/a: x -> y:\n"))
    except SystemExit:
        return 1
    return 0


SLEEPER = (Path("a.c"), "sleeper")
CANCELLED = [
    ("a thread without anything may sleep", {"sleeper": "read"}, {}, 0),
    ("one with a turn may not", {"sleeper": "turn_take read"}, {}, 1),
    ("nor further down", {"taker": "spin_lock sleeper", "sleeper": "open64"}, {}, 1),
    ("it may where cancellation is disabled",
     {"taker": "spin_lock sleeper", "sleeper": "uncancelled_begin read"}, {}, 0),
    ("or under a struct mutex", {"sleeper": "mutex_lock spin_lock read"}, {}, 0),
    ("or with a reason", {"taker": "spin_lock sleeper", "sleeper": "read"}, {SLEEPER: "so"}, 0),
    ("a reason that nothing needs", {"sleeper": "spin_lock"}, {SLEEPER: "so"}, 1),
]


def may_be_cancelled(functions_, waived):
    after = defaultdict(set)
    for name, names in functions_.items():
        after[Path("a.c"), name] = {(Path("a.c") if n in functions_ else None, n)
                                    for n in names.split()}
    return sum(map(len, cancelled.judge(after, waived)))


def main():
    table = [(name, lambda c=c, g=g: len(with_tree(c, g)), n) for name, c, g, n in CASES]
    table += [(f"circles: {name}", lambda c=c, w=w: in_circles(c, w), n)
              for name, c, w, n in CIRCLES]
    table += [(f"cancelled: {name}", lambda c=c, w=w: may_be_cancelled(c, w), n)
              for name, c, w, n in CANCELLED]
    table.append(("circles: a waiver without a reason", refuses_a_waiver_without_reason, 1))
    print(f"1..{len(table)}")
    failed = 0
    for number, (name, run, expected) in enumerate(table, 1):
        found = run()
        good = found == expected
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# expected {expected} findings, got {found}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

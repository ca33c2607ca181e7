#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: source
"""Calls every public function that is not built yet, with null pointers, and checks that it refuses
by its own convention and says so by name.

Which functions those are stands in the tables of src/{verbs,mlx5,rdmacm}; what each must return is
decided here: by its return type in the public headers, and by the lists below for what the manual
pages say beyond the type."""

import ctypes
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

LIB = os.environ["SOFTHCA_LIB"]
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # Python's are not ours
SOURCE = Path(__file__).resolve().parent.parent.parent / "src"
HEADERS = """#include <infiniband/verbs.h>
#include <infiniband/mlx5dv.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
"""

# -1 and errno, though declared like the calls that return the number itself
MINUS1 = re.compile(r"rdma_|r[a-z]+$|repoll_|ibv_dm_export_dmabuf_fd$|ibv_read_ibdev_sysfs_file$|"
                    r"mlx5dv_devx_uar_export_dmabuf_fd$|"
                    r"mlx5dv_devx_get_event$|mlx5dv_vfio_get_events_fd$|"
                    r"old_ibv_(close_device|query_gid|query_pkey|get_(cq|async)_event)$")
MINUS_ERRNO = {"mlx5dv_qp_cancel_posted_send_wrs"}
# entry points that programs try first: "no such device" makes them go on without
NO_DEVICE = {"rdma_create_event_channel", "rdma_create_id", "rdma_create_ep", "rdma_getaddrinfo",
             "rdma_get_devices", "mlx5dv_get_data_direct_sysfs_path"}
# exported, but in no installed header
UNDECLARED = {
    "_verbs_init_and_alloc_context": "void *",
    "verbs_set_ops": "void",
    "verbs_uninit_context": "void",
    "verbs_open_device": "void *",
    "ibv_dmabuf_heap_alloc": "void *",
    "ibv_dmabuf_heap_destroy": "void",
    "ibv_dmabuf_heap_free": "void",
    "__ioctl_final_num_attrs": "unsigned int",
    "old_register_driver": "void",
    "ibv_copy_ah_attr_from_kern": "void",
    "ibv_copy_path_rec_from_kern": "void",
    "ibv_copy_path_rec_to_kern": "void",
    "ibv_copy_qp_attr_from_kern": "void",
}
# Declared by headers newer than rdma-core 44; by these manual pages where the header is older.
NEWER = {
    "ibv_alloc_dmah": "void *",
    "ibv_create_comp_cntr": "void *",
    "__mlx5dv_create_flow": "void *",
    "mlx5dv_create_flow": "void *",  # a macro there
    "_mlx5dv_get_export_sizes": "void",
    "mlx5dv_devx_obj_import": "void *",
    "mlx5dv_devx_obj_unimport": "void",
    "mlx5dv_devx_umem_import": "void *",
    "mlx5dv_devx_umem_unimport": "void",
    "mlx5dv_var_import": "void *",
    "mlx5dv_var_unimport": "void",
}
WITHOUT_ERROR = {"__ioctl_final_num_attrs", "rdma_get_src_port", "rdma_get_dst_port",
                 "ibv_get_device_guid"}
OLD = {"old_init_obj": ("mlx5dv_init_obj", "MLX5_1.0"),
       "old_register_driver": ("ibv_register_driver", "IBVERBS_1.1")}

TABLES = {
    "libibverbs.so.1": ("verbs/unbuilt.c", "verbs/compat.c", "verbs/private.c"),
    "libmlx5.so.1": ("mlx5/unbuilt.c",),
    "librdmacm.so.1": ("rdmacm/unbuilt.c",),
}


def unbuilt(path):
    """Names of the rows of a table, an old form with "old_" in front."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"#define(.*\\\n)*.*\n", "", text)
    rows = re.findall(r"^(?:RETURNS_\w+|UNBUILT_CALL|PRIVATE)\((?:[^,()]*, *)?(\w+)", text, re.M)
    rows += re.findall(r"^EXPORT void \*(rdma_get_devices)\(", text, re.M)
    rows += ["old_" + n for n in re.findall(r"^OLD\(\w+, (\w+)\)", text, re.M)]
    return sorted(set(rows))


def return_types():
    text = subprocess.run(["cc", "-E", "-P", "-"], input=HEADERS, text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text.replace("\n", " "))
    # the first place where a name stands behind a type and before a parenthesis
    found = {}
    for m in re.finditer(r"(?:^|[;}])\s*(?:extern )?([\w ]+?[ *]+)(\w+) ?\(", text):
        found.setdefault(m[2], " ".join(m[1].replace("*", " * ").split()))
    return found


def public_name(row):
    return OLD.get(row, (row.removeprefix("old_"), "IBVERBS_1.0"))


def address(lib, row):
    if not row.startswith("old_"):
        return ctypes.cast(getattr(lib, row), ctypes.c_void_p).value
    name, version = public_name(row)
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype = ctypes.c_void_p
    dlvsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    return dlvsym(lib._handle, name.encode(), version.encode())


def expected(row, ctype):
    """(Python type of the result, its value, errno) for a call declared as @ctype."""
    err = errno.ENODEV if row in NO_DEVICE else errno.EOPNOTSUPP
    if ctype == "void":
        return None, None, None
    if ctype.endswith("*"):
        return ctypes.c_void_p, None, err
    if public_name(row)[0] in WITHOUT_ERROR:
        return ctypes.c_uint64 if ctype == "__be64" else ctypes.c_uint16, 0, None
    if row in MINUS_ERRNO:
        return ctypes.c_int, -err, None
    if MINUS1.match(row):
        return ctypes.c_int if ctype == "int" else ctypes.c_ssize_t, -1, err
    if ctype != "int":
        raise ValueError(f"{row} returns {ctype}: no rule for it")
    return ctypes.c_int, err, None


def check(lib, row, ctype):
    restype, value, err = expected(row, ctype)
    addr = address(lib, row)
    if not addr:
        return "is not exported"
    call = ctypes.CFUNCTYPE(restype, *[ctypes.c_void_p] * 6, use_errno=True)(addr)
    ctypes.set_errno(0)
    result = call(*[None] * 6)
    if result != value:
        return f"returned {result}, not {value}"
    if err is not None and ctypes.get_errno() != err:
        return f"set errno {ctypes.get_errno()}, not {err}"
    return None


def call_all():
    """In a child: so that a crash is a failure with a name and the reasons can be read."""
    types = NEWER | return_types() | UNDECLARED
    failed = count = 0
    for so, tables in TABLES.items():
        lib = ctypes.CDLL(os.path.join(LIB, so), use_errno=True)
        for table in tables:
            for row in unbuilt(SOURCE / table):
                ctype = types.get(row) or types.get(public_name(row)[0])
                if ctype is None:  # undeclared and a number: the provider's commands, ASO
                    ctype = "void *" if "_create_aso" in row else "int"
                print(row, flush=True)
                wrong = check(lib, row, ctype)
                if wrong:
                    print(f"FAIL: {row} ({ctype}): {wrong}", flush=True)
                    failed += 1
                count += 1
    print(f"{count} calls checked, {failed} wrong")
    return 1 if failed or count < 200 else 0


def main():
    if sys.argv[1:] == ["--child"]:
        return call_all()
    preload = os.environ.get("SOFTHCA_PRELOAD", "")
    done = subprocess.run([sys.executable, sys.argv[0], "--child"], text=True, check=False,
                          env=os.environ | {"SOFTHCA_EXPLAIN": "1", "LD_LIBRARY_PATH": LIB,
                                            "LD_PRELOAD": preload,
                                            "ASAN_OPTIONS": NO_LEAKS},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    called = [w for w in done.stdout.split("\n") if re.fullmatch(r"\w+", w)]
    print("\n".join(w for w in done.stdout.split("\n") if w not in called))
    if done.returncode and not called:
        print(done.stderr)
    if done.returncode < 0:
        print(f"FAIL: {called[-1] if called else 'start'} died of signal {-done.returncode}")
    silent = [row for row in called if not re.search(rf"\b{row}\b", done.stderr)]
    if silent:
        print("FAIL: no reason was given for", " ".join(silent))
    return 1 if done.returncode or silent else 0


if __name__ == "__main__":
    sys.exit(main())

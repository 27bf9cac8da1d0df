//! BTF, the description of a kernel's or a program's types (Documentation/bpf/btf.rst), read from bytes.

#!/bin/sh
# Compiles steer.bpf.c to steer.o, which is committed so that users need no compiler. `build.sh OUT` writes
# elsewhere: the test that compares the committed form with its source does so.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/steer.o}
cd "$here"
clang -target bpf -mcpu=v3 -O2 -Wall -Wextra -Werror -idirafter "/usr/include/$(uname -m)-linux-gnu" \
    -c steer.bpf.c -o "$out"
llvm-strip --strip-debug "$out"

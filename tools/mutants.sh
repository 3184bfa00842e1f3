#!/usr/bin/env bash
# Changes the code named in .cargo/mutants.toml, one place at a time, and has a test fail each time. The argument is the
# cargo-mutants to do it with. Takes an hour or two; MUTANTS="--file …" narrows it, MUTANTS_TIMEOUT gives slow machines time.
set -euo pipefail

mutants=$1
results=target/mutants
export CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
# Each job builds where its copy of the tree is: in one directory, one would run what another has just built.
unset CARGO_TARGET_DIR

# Where nextest is there a run ends with the first test that fails: with a fault in the rules others may go on for a minute.
tool=()
if cargo nextest --version > /dev/null 2>&1; then
  tool=(--test-tool nextest --cargo-test-arg=--max-fail=1:immediate)
fi

# 2 and 3 say that mutants survived, or ran out of time: the count below tells.
try() {
  "$mutants" mutants --package leasehold --output "$results" --no-shuffle --colors never --cargo-arg=--locked \
    --minimum-test-timeout "${MUTANTS_TIMEOUT:-60}" ${MUTANTS:-} "${tool[@]}" "$@" || [[ $? == [23] ]]
}

rm -rf "$results"
mkdir -p "$results"
try --features conformance,workflows,lambda --cargo-test-arg=--lib
out=$results/mutants.out
missed=$(wc -l < "$out/missed.txt")
cat "$out"/{caught,timeout}.txt | sort -u > "$results/noticed.txt"
unviable=$(wc -l < "$out/unviable.txt")

# What the library's own tests miss, those on a table may see. There is no trial of the tree as it is, which would run the
# tests of every package; that these pass is for `make test` to say.
if [ "$missed" != 0 ]; then
  try --iterate --baseline skip --timeout 300 --test-package leasehold-proof --cargo-arg=--test --cargo-arg=table
  sort -u "$results/noticed.txt" "$out"/{caught,timeout}.txt -o "$results/noticed.txt"
  # Those that brought the library's tests to no end were tried once more, and have been noticed already.
  sort "$out/missed.txt" | comm -23 - "$results/noticed.txt" > "$results/survived.txt"
  missed=$(wc -l < "$results/survived.txt")
  cat "$results/survived.txt"
fi

caught=$(wc -l < "$results/noticed.txt")
echo "mutants: $((caught + missed)) tried, $caught caught, $missed survived ($unviable more do not compile)"
[ "$missed" = 0 ]

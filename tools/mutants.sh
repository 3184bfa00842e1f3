#!/usr/bin/env bash
# Mutates the code listed in .cargo/mutants.toml, one place at a time; a test has to fail each time. The argument is the path
# of cargo-mutants. Takes an hour or two; MUTANTS="--file …" restricts it, MUTANTS_TIMEOUT is for slow machines (seconds).
set -euo pipefail

mutants=$1
results=target/mutants
export CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
# Each job builds in its own copy of the tree: in a shared directory a job could run what another has just built.
unset CARGO_TARGET_DIR

# With nextest, if installed, a run ends at the first failing test: with a fault in the rules others may run for a minute.
tool=()
if cargo nextest --version > /dev/null 2>&1; then
  tool=(--test-tool nextest --cargo-test-arg=--max-fail=1:immediate)
fi

# 2 and 3 mean that mutants survived or ran out of time, which are counted below.
try() {
  "$mutants" mutants --package leasehold --output "$results" --no-shuffle --colors never --cargo-arg=--locked \
    --minimum-test-timeout "${MUTANTS_TIMEOUT:-60}" ${MUTANTS:-} "${tool[@]}" "$@" || [[ $? == [23] ]]
}

rm -rf "$results"
mkdir -p "$results"
# The library's own tests.
try --test-package leasehold --cargo-test-arg=--lib --cargo-test-arg=--test=cases
out=$results/mutants.out
missed=$(wc -l < "$out/missed.txt")
cat "$out"/{caught,timeout}.txt | sort -u > "$results/noticed.txt"
unviable=$(wc -l < "$out/unviable.txt")

# Mutants that the library's own tests miss are tried with the tests on a table. The unchanged tree is not tested here,
# because that would run the tests of every package; `make test` does.
if [ "$missed" != 0 ]; then
  try --iterate --baseline skip --timeout 300 --test-package leasehold-proof --cargo-arg=--test --cargo-arg=table
  sort -u "$results/noticed.txt" "$out"/{caught,timeout}.txt -o "$results/noticed.txt"
  # Mutants that timed out in the library's tests were tried again; they count as noticed already.
  sort "$out/missed.txt" | comm -23 - "$results/noticed.txt" > "$results/survived.txt"
  missed=$(wc -l < "$results/survived.txt")
  cat "$results/survived.txt"
fi

caught=$(wc -l < "$results/noticed.txt")
echo "mutants: $((caught + missed)) tried, $caught caught, $missed survived ($unviable more do not compile)"
[ "$missed" = 0 ]

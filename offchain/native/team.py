"""The machine code of a team of threads: one that shares out a task, and helpers that join it.

A task is a call of machine code on ranges of items: words of 64 bits, two neighbours of which say
where a range begins and stops. Whoever shares it out takes ranges from the front, helpers take
theirs from the back, each a part of what is left, so that one may begin late. A helper that has
nothing to do looks for a task some thousand times before it sleeps, since to be woken takes twenty
microseconds. A task that finds the team at work, or that is too small, is one call.

An operating system that likes to leave cores idle puts a woken thread on the core of the thread
that wakes it, and takes milliseconds to part the two. So helpers that are woken are first kept off
that core.

A team is words of 64 bits, those that are written often in cache lines of their own. It is written
in LLVM's language as text, since nothing in it depends on a shape.
"""

import platform
from functools import cache

from moot.offchain.native.native import load_addresses

MOST_WORDS = 64
"""Words that a call may have; machine code passes over one that has more."""

LOCK, GATE, SLEEPERS, RANGE, ACTIVE, TASK, LEAST, DIVISOR = 0, 8, 9, 16, 24, 32, 33, 34
"""Whether the team is at work; an odd number while a task may be joined, which grows; the helpers
that sleep; the first and the last range that is left; the helpers that have joined; the address of
the task; the fewest grains of a range; the part of what is left that a range is."""

MEMBERS, HELPERS, SPINS = 35, 36, 37
"""How many threads may share a task; the helpers that serve; how often they look before they
sleep."""

FUNCTIONS = 40
"""Where the addresses of the functions are that the team calls, in the order of `NAMES`."""

NAMES = (
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_broadcast",
    "sched_yield",
    "fesetenv",
)
MUTEX, CONDITION, ENVIRONMENT = 46, 47, 48
"""Addresses: of what helpers sleep by, and of the standard floating-point environment."""

GET_CORE, SET_CORES, SETS, AVOIDED = 49, 50, 51, 52
"""Addresses of sched_getcpu, 0 where threads can't be bound, and of sched_setaffinity; that of the
sets of cores, each without one core; and the core that helpers are kept off, or -1."""

SET_BYTES = 128
"""Bytes of a set of cores, a bit for each."""

THREADS = 56
"""Where the system's numbers of the helpers' threads are."""

ENTRY, COUNT, FIRST, ITEMS, GRAIN, SCRATCH, SCRATCH_BYTES, MOST, WORDS = range(9)
"""A task: the address of a function; how many words it takes; which of them is where a range
begins, the next being where it stops; the number of items; the items of a grain, at multiples of
which ranges begin; which word is the address of scratch memory, or -1; how many bytes of it each
thread has; how many threads may share it; and the words."""

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}
_MACHINE = platform.machine().lower()
_DECLARE_PAUSE, _PAUSE = _PAUSES.get(_ALIASES.get(_MACHINE, _MACHINE), ("", ""))
"""How a loop that waits tells the processor so, where it has a word for that."""


@cache
def get_addresses() -> tuple[int, int]:
    """Return where two functions are.

    `share_out`, of a team and a task, both addresses, computes all of the task. `serve`, of a team
    and a number from 1, makes its caller that helper, and does not return.
    """
    share_out, serve = load_addresses(_TEXT, "share_out", "serve")
    return share_out, serve


def _word(base: str, name: str, place: int) -> str:
    return f"%{name}.at = getelementptr i64, ptr %{base}, i64 {place}"


def _invoke() -> str:
    """Return the function that computes one range of a task."""
    cases = "\n".join(f"    i64 {n}, label %call{n}" for n in range(1, MOST_WORDS + 1))
    calls = []
    for count in range(1, MOST_WORDS + 1):
        loads = "\n".join(
            f"  %p{count}.{i} = getelementptr i64, ptr %words, i64 {i}\n"
            f"  %w{count}.{i} = load i64, ptr %p{count}.{i}"
            for i in range(count)
        )
        arguments = ", ".join(f"i64 %w{count}.{i}" for i in range(count))
        calls.append(f"call{count}:\n{loads}\n  call i64 %entry({arguments})\n  ret void")
    return f"""
define internal void @invoke(ptr %task, i64 %member, i64 %begin, i64 %end) noinline {{
  %words = alloca [{MOST_WORDS} x i64], align 64
  {_word("task", "entry", ENTRY)}
  %entry = load ptr, ptr %entry.at
  {_word("task", "count", COUNT)}
  %count = load i64, ptr %count.at
  {_word("task", "given", WORDS)}
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %words, ptr %given.at, i64 %bytes, i1 false)
  {_word("task", "first", FIRST)}
  %first = load i64, ptr %first.at
  %range = getelementptr i64, ptr %words, i64 %first
  store i64 %begin, ptr %range
  {_word("range", "stop", 1)}
  store i64 %end, ptr %stop.at
  {_word("task", "scratch", SCRATCH)}
  %scratch = load i64, ptr %scratch.at
  %has = icmp sge i64 %scratch, 0
  br i1 %has, label %move, label %choose
move:
  {_word("task", "own", SCRATCH_BYTES)}
  %own = load i64, ptr %own.at
  %shift = mul i64 %own, %member
  %memory.at = getelementptr i64, ptr %words, i64 %scratch
  %memory = load i64, ptr %memory.at
  %mine = add i64 %memory, %shift
  store i64 %mine, ptr %memory.at
  br label %choose
choose:
  switch i64 %count, label %none [
{cases}
  ]
none:
  ret void
{chr(10).join(calls)}
}}
"""


_WORK = f"""
define internal void @work(ptr %team, i64 %member) noinline {{
  {_word("team", "range", RANGE)}
  {_word("team", "task", TASK)}
  %task = load ptr, ptr %task.at
  {_word("team", "least", LEAST)}
  %least = load i64, ptr %least.at
  {_word("team", "divisor", DIVISOR)}
  %divisor = load i64, ptr %divisor.at
  {_word("task", "items", ITEMS)}
  %items = load i64, ptr %items.at
  {_word("task", "grain", GRAIN)}
  %grain = load i64, ptr %grain.at
  %more = sub i64 %divisor, 1
  %leads = icmp eq i64 %member, 0
  {_word("task", "most", MOST)}
  %most = load i64, ptr %most.at
  %is.wanted = icmp slt i64 %member, %most
  br i1 %is.wanted, label %look, label %done
look:
  %range = load atomic i64, ptr %range.at seq_cst, align 8
  %front = and i64 %range, 4294967295
  %back = lshr i64 %range, 32
  %left = sub i64 %back, %front
  %is.left = icmp sgt i64 %left, 0
  br i1 %is.left, label %take, label %done
take:
  %above = add i64 %left, %more
  %part = udiv i64 %above, %divisor
  %wanted = call i64 @llvm.smax.i64(i64 %part, i64 %least)
  %size = call i64 @llvm.smin.i64(i64 %wanted, i64 %left)
  %later = sub i64 %back, %size
  %first = select i1 %leads, i64 %front, i64 %later
  %high = shl i64 %size, 32
  %fewer = sub i64 %range, %high
  %further = add i64 %range, %size
  %next = select i1 %leads, i64 %further, i64 %fewer
  %pair = cmpxchg ptr %range.at, i64 %range, i64 %next seq_cst seq_cst
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %compute, label %look
compute:
  %last = add i64 %first, %size
  %begin = mul i64 %first, %grain
  %stop = mul i64 %last, %grain
  %end = call i64 @llvm.smin.i64(i64 %stop, i64 %items)
  call void @invoke(ptr %task, i64 %member, i64 %begin, i64 %end)
  br label %look
done:
  ret void
}}
"""

_PART = f"""
define internal void @part(ptr %team) noinline {{
  {_word("team", "get", GET_CORE)}
  %get = load ptr, ptr %get.at
  %is.known = icmp ne ptr %get, null
  br i1 %is.known, label %find, label %done
find:
  %found = call i32 %get()
  %core = sext i32 %found to i64
  {_word("team", "avoided", AVOIDED)}
  %avoided = load i64, ptr %avoided.at
  %is.avoided = icmp eq i64 %core, %avoided
  br i1 %is.avoided, label %done, label %begin
begin:
  store i64 %core, ptr %avoided.at
  {_word("team", "helpers", HELPERS)}
  %helpers = load i64, ptr %helpers.at
  {_word("team", "bind", SET_CORES)}
  %bind = load ptr, ptr %bind.at
  {_word("team", "sets", SETS)}
  %sets = load ptr, ptr %sets.at
  %shift = mul i64 %core, {SET_BYTES}
  %set = getelementptr i8, ptr %sets, i64 %shift
  br label %look
look:
  %helper = phi i64 [ 0, %begin ], [ %next, %move ]
  %is.left = icmp slt i64 %helper, %helpers
  br i1 %is.left, label %move, label %done
move:
  %place = add i64 %helper, {THREADS}
  %thread.at = getelementptr i64, ptr %team, i64 %place
  %word = load i64, ptr %thread.at
  %thread = trunc i64 %word to i32
  call i32 %bind(i32 %thread, i64 {SET_BYTES}, ptr %set)
  %next = add i64 %helper, 1
  br label %look
done:
  ret void
}}
"""

_SHARE_OUT = f"""
define i64 @share_out(ptr %team, ptr %task) {{
  {_word("task", "items", ITEMS)}
  %items = load i64, ptr %items.at
  {_word("task", "grain", GRAIN)}
  %grain = load i64, ptr %grain.at
  %above = add i64 %items, %grain
  %upper = sub i64 %above, 1
  %grains = udiv i64 %upper, %grain
  {_word("team", "members", MEMBERS)}
  %members = load i64, ptr %members.at
  {_word("team", "helpers", HELPERS)}
  %helpers = load i64, ptr %helpers.at
  %all = add i64 %helpers, 1
  %threads = call i64 @llvm.smin.i64(i64 %members, i64 %all)
  %worth = call i64 @llvm.smin.i64(i64 %threads, i64 %grains)
  %is.worth = icmp sgt i64 %worth, 1
  br i1 %is.worth, label %ask, label %alone
ask:
  {_word("team", "lock", LOCK)}
  %pair = cmpxchg ptr %lock.at, i64 0, i64 1 seq_cst seq_cst
  %has = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %has, label %begin, label %alone
begin:
  {_word("team", "task", TASK)}
  store ptr %task, ptr %task.at
  %small = udiv i64 %grains, 64
  %least = call i64 @llvm.smax.i64(i64 %small, i64 1)
  {_word("team", "least", LEAST)}
  store i64 %least, ptr %least.at
  %divisor = mul i64 %threads, 2
  {_word("team", "divisor", DIVISOR)}
  store i64 %divisor, ptr %divisor.at
  {_word("team", "range", RANGE)}
  %range = shl i64 %grains, 32
  store atomic i64 %range, ptr %range.at seq_cst, align 8
  {_word("team", "gate", GATE)}
  %gate = load atomic i64, ptr %gate.at seq_cst, align 8
  %open = add i64 %gate, 1
  %closed = add i64 %gate, 2
  store atomic i64 %open, ptr %gate.at seq_cst, align 8
  {_word("team", "sleepers", SLEEPERS)}
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %wake, label %compute
wake:
  {_word("team", "mutex", MUTEX)}
  %mutex = load ptr, ptr %mutex.at
  {_word("team", "condition", CONDITION)}
  %condition = load ptr, ptr %condition.at
  {_word("team", "hold", FUNCTIONS)}
  %hold = load ptr, ptr %hold.at
  {_word("team", "free", FUNCTIONS + 1)}
  %free = load ptr, ptr %free.at
  {_word("team", "call", FUNCTIONS + 3)}
  %call = load ptr, ptr %call.at
  call void @part(ptr %team)
  call i32 %hold(ptr %mutex)
  call i32 %call(ptr %condition)
  call i32 %free(ptr %mutex)
  br label %compute
compute:
  call void @work(ptr %team, i64 0)
  store atomic i64 %closed, ptr %gate.at seq_cst, align 8
  {_word("team", "active", ACTIVE)}
  {_word("team", "spins", SPINS)}
  %spins = load i64, ptr %spins.at
  {_word("team", "yield", FUNCTIONS + 4)}
  %yield = load ptr, ptr %yield.at
  br label %wait
wait:
  %looks = phi i64 [ 0, %compute ], [ %later, %pause ], [ 0, %give ]
  %active = load atomic i64, ptr %active.at seq_cst, align 8
  %is.over = icmp eq i64 %active, 0
  br i1 %is.over, label %end, label %look
look:
  %later = add i64 %looks, 1
  %is.long = icmp sgt i64 %later, %spins
  br i1 %is.long, label %give, label %pause
pause:
  {_PAUSE}
  br label %wait
give:
  call i32 %yield()
  br label %wait
end:
  store atomic i64 0, ptr %lock.at seq_cst, align 8
  ret i64 0
alone:
  call void @invoke(ptr %task, i64 0, i64 0, i64 %items)
  ret i64 0
}}
"""

_SERVE = f"""
define void @serve(ptr %team, i64 %number) {{
  {_word("team", "gate", GATE)}
  {_word("team", "sleepers", SLEEPERS)}
  {_word("team", "active", ACTIVE)}
  {_word("team", "members", MEMBERS)}
  {_word("team", "spins", SPINS)}
  {_word("team", "mutex", MUTEX)}
  %mutex = load ptr, ptr %mutex.at
  {_word("team", "condition", CONDITION)}
  %condition = load ptr, ptr %condition.at
  {_word("team", "environment", ENVIRONMENT)}
  %environment = load ptr, ptr %environment.at
  {_word("team", "hold", FUNCTIONS)}
  %hold = load ptr, ptr %hold.at
  {_word("team", "free", FUNCTIONS + 1)}
  %free = load ptr, ptr %free.at
  {_word("team", "rest", FUNCTIONS + 2)}
  %rest = load ptr, ptr %rest.at
  {_word("team", "set", FUNCTIONS + 5)}
  %set = load ptr, ptr %set.at
  br label %look
look:
  %seen = phi i64 [ 0, %0 ], [ %seen, %pause ], [ %gate, %leave ], [ %seen, %woken ]
  %looks = phi i64 [ 0, %0 ], [ %later, %pause ], [ 0, %leave ], [ 0, %woken ]
  %gate = load atomic i64, ptr %gate.at seq_cst, align 8
  %members = load atomic i64, ptr %members.at monotonic, align 8
  %wanted = icmp slt i64 %number, %members
  %odd = and i64 %gate, 1
  %is.open = icmp eq i64 %odd, 1
  %is.new = icmp ne i64 %gate, %seen
  %is.task = and i1 %is.open, %is.new
  %is.mine = and i1 %is.task, %wanted
  br i1 %is.mine, label %join, label %idle
join:
  %before = atomicrmw add ptr %active.at, i64 1 seq_cst
  %now = load atomic i64, ptr %gate.at seq_cst, align 8
  %is.same = icmp eq i64 %now, %gate
  br i1 %is.same, label %help, label %leave
help:
  call i32 %set(ptr %environment)
  call void @work(ptr %team, i64 %number)
  br label %leave
leave:
  %after = atomicrmw sub ptr %active.at, i64 1 seq_cst
  br label %look
idle:
  %later = add i64 %looks, 1
  %spins = load i64, ptr %spins.at
  %most = select i1 %wanted, i64 %spins, i64 0
  %is.long = icmp sgt i64 %later, %most
  br i1 %is.long, label %sleep, label %pause
pause:
  {_PAUSE}
  br label %look
sleep:
  call i32 %hold(ptr %mutex)
  %more = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  br label %doze
doze:
  %at.night = load atomic i64, ptr %gate.at seq_cst, align 8
  %is.night = icmp eq i64 %at.night, %gate
  br i1 %is.night, label %dream, label %wake
dream:
  call i32 %rest(ptr %condition, ptr %mutex)
  br label %doze
wake:
  %fewer = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  call i32 %free(ptr %mutex)
  br label %woken
woken:
  br label %look
}}
"""

_DECLARATIONS = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
{_DECLARE_PAUSE}
"""

_TEXT = _DECLARATIONS + _invoke() + _WORK + _PART + _SHARE_OUT + _SERVE

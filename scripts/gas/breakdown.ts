/** One line of `debug_traceTransaction`: an instruction and the gas that was left before it. */
export interface Step {
  readonly op: string;
  readonly gas: number;
  readonly gasCost: number;
  readonly depth: number;
}

export interface TracedTransaction {
  readonly gasUsed: number;
  /** Call data, as hex. */
  readonly input: string;
  readonly steps: readonly Step[];
}

export interface Share {
  readonly what: string;
  readonly gas: number;
  readonly count: number;
}

const INTRINSIC = 21_000;
const COLD_ACCOUNT = 2_600;
const COLD_SLOT = 2_100;
const NEW_SLOT = 20_000;
const ECRECOVER = 3_000;
const WARM = 100;

const calls: ReadonlySet<string> = new Set(["CALL", "STATICCALL", "DELEGATECALL", "CALLCODE"]);

/**
 * What the gas of a successful transaction went to: shares that add up to `gasUsed`, with the refund as a negative one. Knows the
 * prices from Berlin on; EIP-7623's floor for call data is above none of what this project measures.
 */
export function breakDown({ gasUsed, input, steps }: TracedTransaction): readonly Share[] {
  const shares = new Map<string, { gas: number; count: number }>();
  const add = (what: string, gas: number, count = 1): void => {
    const share = shares.get(what) ?? { gas: 0, count: 0 };
    shares.set(what, { gas: share.gas + gas, count: share.count + count });
  };

  add("intrinsic", INTRINSIC);
  const bytes = Buffer.from(input.replace(/^0x/, ""), "hex");
  const nonZero = bytes.filter((byte) => byte !== 0).length;
  add("call data", 16 * nonZero + 4 * (bytes.length - nonZero), bytes.length);
  steps.forEach((step, index) => {
    addStep(step.op, ownCost(steps, index), add);
  });
  const spent = [...shares.values()].reduce((sum, { gas }) => sum + gas, 0);
  if (spent !== gasUsed) add("refund", gasUsed - spent);
  return [...shares].map(([what, share]) => ({ what, ...share })).toSorted((a, b) => b.gas - a.gas);
}

function addStep(op: string, cost: number, add: (what: string, gas: number, count?: number) => void): void {
  if (op === "SLOAD") {
    add(cost > WARM ? "SLOAD, first of a slot" : "SLOAD, again", cost);
  } else if (op === "SSTORE") {
    if (cost >= NEW_SLOT) add("SSTORE, new slot", cost);
    else if (cost > WARM) add(cost > COLD_SLOT + WARM ? "SSTORE, changed slot" : "SSTORE, touched slot", cost);
    else add("SSTORE, again or unchanged", cost);
  } else if (op.startsWith("LOG")) {
    add("events", cost);
  } else if (op === "KECCAK256" || op === "SHA3") {
    add("keccak256", cost);
  } else if (calls.has(op) || op === "EXTCODESIZE") {
    // The part for the account; what is left is memory and the like.
    const account = cost >= COLD_ACCOUNT && cost < ECRECOVER ? COLD_ACCOUNT : WARM;
    if (account === COLD_ACCOUNT) add("first call of an account", COLD_ACCOUNT);
    else add("calls, account known", WARM);
    const rest = cost - account;
    if (rest >= ECRECOVER) add("ecrecover", ECRECOVER);
    add("other instructions", rest >= ECRECOVER ? rest - ECRECOVER : rest, 0);
  } else {
    add("other instructions", cost);
  }
}

/** What an instruction cost itself: for a call, without what the callee used. */
function ownCost(steps: readonly Step[], index: number): number {
  const step = at(steps, index);
  const next = steps[index + 1];
  if (next === undefined || next.depth < step.depth) return step.gasCost;
  if (next.depth === step.depth) return step.gas - next.gas;
  let last = index + 1;
  while (at(steps, last + 1).depth > step.depth) last++;
  const end = at(steps, last);
  const usedInside = next.gas - (end.gas - end.gasCost);
  return step.gas - at(steps, last + 1).gas - usedInside;
}

function at(steps: readonly Step[], index: number): Step {
  const step = steps[index];
  if (step === undefined) throw new Error("the trace ends inside a call");
  return step;
}

import { expect } from "chai";
import { createPublicClient, custom, decodeFunctionData, encodeFunctionResult, erc20Abi, type Hex } from "viem";
import { jobEscrowAbi } from "../../../chain/abi/job-escrow.ts";
import type { TransactionQueue } from "../../../chain/transactions/types.ts";
import { Treasury } from "../../../gateway/jobs/treasury.ts";
import { fakeContracts, person } from "../../support/fake-chain.ts";
import { MemoryJournal } from "../support/memory-journal.ts";

/** Of whoever waits for as long as it takes. */
const patient = new AbortController().signal;

/** A wallet with tokens and an escrow account; deposits are mined when `mine` settles. */
function treasuryOf(state: {
  free: bigint;
  held: bigint;
  readonly target: bigint | undefined;
  mine?: Promise<unknown>;
  /** Whether the deposit that the queue has given up is on the chain already when it is asked for again. */
  readonly undecided?: { isMined: boolean };
}) {
  const deposits: bigint[] = [];
  const keys = new Set<string>();
  let failure: Error | undefined;
  const request = async ({ method, params }: { method: string; params?: unknown }): Promise<unknown> => {
    if (method !== "eth_call") throw new Error(method);
    const [{ data }] = params as readonly [{ readonly data: Hex }];
    const { functionName } = decodeFunctionData({ abi: erc20Abi, data });
    const result = functionName === "balanceOf" ? state.held : 10n ** 30n;
    return await Promise.resolve(encodeFunctionResult({ abi: erc20Abi, functionName: "balanceOf", result }));
  };
  const queue: TransactionQueue = {
    address: person(1),
    submit: async ({ key, data }) => {
      const call = decodeFunctionData({ abi: jobEscrowAbi, data });
      const amount = call.args[0] as bigint;
      if (!keys.has(key)) deposits.push(amount);
      keys.add(key);
      await state.mine;
      if (state.undecided?.isMined === false) return { status: "abandoned", message: "no answer", undecided: true };
      state.free += amount;
      state.held -= amount;
      return { status: "success", hash: "0x", receipt: {} as never };
    },
    outcomeOf: async () => await Promise.resolve(undefined),
    isPending: (key) => state.undecided !== undefined && keys.has(key),
    pending: 0,
    close: async () => await Promise.resolve(),
  };
  const treasury = new Treasury({
    queue,
    client: createPublicClient({ transport: custom({ request }, { retryCount: 0 }) }),
    calls: {
      account: async () => {
        if (failure !== undefined) throw failure;
        return await Promise.resolve({ free: state.free, locked: 0n });
      },
    },
    journal: new MemoryJournal(),
    escrow: fakeContracts.escrow,
    token: person(9),
    target: state.target,
    onTopUp: () => undefined,
  });
  return {
    treasury,
    deposits,
    failWith: (error: Error | undefined) => {
      failure = error;
    },
  };
}

describe("the gateway's escrow account", () => {
  it("is filled for each who asks, and not only for the one who asked first", async () => {
    const mined = Promise.withResolvers<undefined>();
    const { treasury, deposits } = treasuryOf({ free: 0n, held: 10_000n, target: 100n, mine: mined.promise });
    const first = treasury.topUp(50n, patient);
    const second = treasury.topUp(5000n, patient);
    const third = treasury.topUp(70n, patient);
    mined.resolve(undefined);
    expect(await Promise.all([first, second, third])).to.deep.equal([true, true, true]);
    expect(deposits, "those who came meanwhile share one").to.deep.equal([100n, 4970n]);
  });

  it("is not promised twice", async () => {
    const mined = Promise.withResolvers<undefined>();
    const { treasury } = treasuryOf({ free: 0n, held: 160n, target: 0n, mine: mined.promise });
    const asked = [
      treasury.topUp(10n, patient),
      treasury.topUp(100n, patient),
      treasury.topUp(100n, patient),
      treasury.topUp(20n, patient),
    ];
    mined.resolve(undefined);
    expect(await Promise.all(asked)).to.deep.equal([true, true, false, true]);
  });

  it("is not filled for those who wait no longer, however long the filling under way takes", async () => {
    const mined = Promise.withResolvers<undefined>();
    const { treasury, deposits } = treasuryOf({ free: 0n, held: 10_000n, target: 100n, mine: mined.promise });
    const first = treasury.topUp(50n, patient);
    const leave = new AbortController();
    const left = treasury.topUp(5000n, leave.signal);
    leave.abort();
    expect(await left).to.equal(false);
    const last = treasury.topUp(70n, patient);
    mined.resolve(undefined);
    expect(await Promise.all([first, last])).to.deep.equal([true, true]);
    expect(deposits).to.deep.equal([100n]);
    expect(await treasury.topUp(1n, leave.signal)).to.equal(false);
  });

  it("is left alone where nobody would be helped, or the operator wants no top-up", async () => {
    const poor = treasuryOf({ free: 5n, held: 10n, target: 100n });
    expect(await poor.treasury.topUp(50n, patient)).to.equal(false);
    expect(poor.deposits).to.deep.equal([]);
    const off = treasuryOf({ free: 5n, held: 1000n, target: undefined });
    expect(await off.treasury.topUp(50n, patient)).to.equal(false);
    expect(off.deposits).to.deep.equal([]);
  });

  it("is not filled twice while nobody knows whether the chain has the first deposit", async () => {
    const undecided = { isMined: false };
    const { treasury, deposits } = treasuryOf({ free: 0n, held: 10_000n, target: 100n, undecided });
    expect(await treasury.topUp(50n, patient)).to.equal(false);
    expect(await treasury.topUp(50n, patient)).to.equal(false);
    undecided.isMined = true;
    expect(await treasury.topUp(50n, patient)).to.equal(true);
    expect(deposits).to.deep.equal([100n]);
  });

  it("is filled again after the chain could not be asked", async () => {
    const { treasury, failWith } = treasuryOf({ free: 0n, held: 1000n, target: 100n });
    failWith(new Error("no answer"));
    const error = await treasury.topUp(50n, patient).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Error);
    failWith(undefined);
    expect(await treasury.topUp(50n, patient)).to.equal(true);
  });
});

import { expect } from "chai";
import type { Address } from "viem";
import { findDrift } from "../../../chain/registry-index/audit.ts";
import { decodeLog } from "../../../chain/registry-index/logs.ts";
import { Snapshot } from "../../../chain/registry-index/snapshot.ts";
import { genesisState } from "../../../chain/registry-index/state.ts";
import { applyLogs } from "../../../chain/registry-index/transition.ts";
import type { ProviderRecord } from "../../../chain/registry-index/types.ts";
import { FakeChain, fakeContracts, fakeRating } from "../../support/fake-chain.ts";
import { FakeMarket } from "../../support/fake-market.ts";

const block = { number: 1, hash: "0x01", timestamp: 1 } as const;

async function oneProvider(): Promise<{ readonly snapshot: Snapshot; readonly record: ProviderRecord }> {
  const chain = new FakeChain();
  chain.extend(new FakeMarket().happen({ kind: "join", who: 0, what: 0 }));
  const logs = (await chain.reader().logsInRange(1, 1)).flatMap((log) => decodeLog(fakeContracts, log) ?? []);
  const { state, touched } = applyLogs(genesisState, logs, () => 7, fakeRating);
  const { snapshot } = Snapshot.empty(600).next(state, block, touched);
  const [record] = [...snapshot.providers()];
  if (record === undefined) throw new Error("nobody joined");
  return { snapshot, record };
}

describe("the audit of the registry index", () => {
  /** Views that answer with these caps, one after the other, whatever the index has. */
  async function audit(caps: readonly number[], hash: `0x${string}` = block.hash): Promise<readonly Address[]> {
    const { snapshot, record } = await oneProvider();
    let asked = 0;
    const someProviders = async (): Promise<readonly ProviderRecord[]> => {
      const maxConcurrentJobs = caps[asked] ?? record.maxConcurrentJobs;
      asked += 1;
      return await Promise.resolve([{ ...record, maxConcurrentJobs }]);
    };
    const drifted = await findDrift({
      snapshot,
      sampleSize: 3,
      random: () => 0.5,
      pages: { someProviders },
      reader: {
        block: async () => await Promise.resolve({ ...block, hash, parentHash: "0x00", baseFeePerGas: undefined }),
      },
    });
    return drifted.map((address) => (address === record.address ? "0xfound" : address));
  }

  it("finds what the views say twice", async () => {
    expect(await audit([4711, 4711])).to.deep.equal(["0xfound"]);
  });

  it("believes no node that answers with the next block's state once, while it puts that block on", async () => {
    expect(await audit([4711])).to.deep.equal([]);
  });

  it("says nothing of a block that is no longer on the chain", async () => {
    expect(await audit([4711, 4711], "0x02")).to.deep.equal([]);
  });
});

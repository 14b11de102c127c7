import { expect } from "chai";
import type { Address } from "viem";
import { type BoundJournal, bindJournal, ForeignJournalError } from "../../chain/journal-binding.ts";
import { type ChainConnection, openChain } from "../../chain/rpc.ts";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { startAnvil, type TestChain } from "../support/chain.ts";
import { countingRpcProxy, type RpcProxy } from "../support/rpc-proxy.ts";

const escrow: Address = "0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0";
const wallet: Address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const another: Address = "0x00000000000000000000000000000000000a11ce";

/** The journal's small values, in memory. */
function values(): BoundJournal {
  const kept = new Map<string, string>();
  return {
    getValue: async (key) => await Promise.resolve(kept.get(key)),
    setValue: async (key, value) => {
      kept.set(key, value);
      await Promise.resolve();
    },
  };
}

describe("the binding of a journal", function () {
  this.timeout(30_000);
  const stops: (() => Promise<void>)[] = [];
  let chain: TestChain;
  let proxy: RpcProxy;
  let connection: ChainConnection;
  let anew: ChainConnection;

  before(async () => {
    chain = await startAnvil({ extra: ["--timestamp", "1700000000"] });
    const later = await startAnvil({ extra: ["--timestamp", "1700000001"] });
    proxy = await countingRpcProxy(chain.rpcUrl);
    const open = (url: string): ChainConnection =>
      openChain({ url, clock: systemClock, random: Math.random, attempts: 1 });
    connection = open(proxy.url);
    anew = open(later.rpcUrl);
    stops.push(
      async () => await connection.close(),
      async () => await anew.close(),
      async () => await proxy.stop(),
      async () => await chain.stop(),
      async () => await later.stop(),
    );
  });

  after(async () => {
    for (const stop of stops) await stop();
  });

  afterEach(() => proxy.setFault(undefined));

  async function bind(
    journal: BoundJournal,
    change: Partial<Parameters<typeof bindJournal>[0]> = {},
  ): Promise<unknown> {
    return await bindJournal({
      journal,
      client: connection.client,
      chainId: chain.chainId,
      escrow,
      wallet,
      dataDir: "data",
      ...change,
    }).catch((error: unknown) => error);
  }

  it("takes a new journal, and the same one again whatever the case of the addresses", async () => {
    const journal = values();
    expect(await bind(journal)).to.equal(undefined);
    expect(await bind(journal, { wallet: wallet.toLowerCase() as Address })).to.equal(undefined);
  });

  for (const [what, change, words] of [
    ["chain", { chainId: 1 }, /of chain 31337, but T4T_RPC_URL .* chain 1:/],
    ["escrow", { escrow: another }, /of the escrow 0x9fE4.*T4T_DEPLOYMENT_FILE .*a11ce/],
    ["wallet", { wallet: another }, /of the wallet 0x7099.*T4T_PRIVATE_KEY .*a11ce/],
  ] as const) {
    it(`refuses another ${what}, and says what to do`, async () => {
      const journal = values();
      await bind(journal);
      const error = await bind(journal, change);
      expect(error).to.be.instanceOf(ForeignJournalError);
      expect((error as Error).message)
        .to.match(words)
        .and.to.match(/set T4T_DATA_DIR to another folder/);
      expect(await bind(journal), "a refusal changes nothing").to.equal(undefined);
    });
  }

  it("refuses a chain with the same number that was started anew", async () => {
    const journal = values();
    await bind(journal);
    const error = await bind(journal, { client: anew.client });
    expect(error).to.be.instanceOf(ForeignJournalError);
    expect((error as Error).message).to.match(/started anew is another chain/);
  });

  it("does without the first block where the node does not show it, and takes it when it does", async () => {
    const journal = values();
    proxy.setFault(({ method }) =>
      method === "eth_getBlockByNumber" ? { kind: "error", code: -32_000, message: "pruned" } : undefined,
    );
    expect(await bind(journal)).to.equal(undefined);
    proxy.setFault(undefined);
    expect(await bind(journal)).to.equal(undefined);
    expect(await bind(journal, { client: anew.client })).to.be.instanceOf(ForeignJournalError);
  });

  it("binds nothing while the chain cannot be asked", async () => {
    const journal = values();
    proxy.setFault(() => ({ kind: "http", status: 503 }));
    expect(chainUnavailableIn(await bind(journal))).to.not.equal(undefined);
    expect(await bind(journal, { client: anew.client, wallet: another })).to.equal(undefined);
  });
});

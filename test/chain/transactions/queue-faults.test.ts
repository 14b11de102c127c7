import { expect } from "chai";
import type { Address } from "viem";
import type { TransactionJournal } from "../../../chain/transactions/transaction-journal.ts";
import { startAnvil } from "../../support/chain.ts";
import { memoryJournal } from "../../support/memory-journal.ts";
import { until } from "../../support/until.ts";
import { queuePlace, receiver } from "./support/queue-place.ts";

describe("the transaction queue when what is beside it fails", function () {
  this.timeout(60_000);
  const place = queuePlace(async () => await startAnvil({ extra: ["--no-mining"] }));

  /** A queue whose calls go through the proxy. */
  const open = async (account: number, options: Parameters<typeof place.open>[1] = {}) =>
    await place.open(account, { rpcUrl: place.proxy.url, ...options });
  const request = (key: string) => ({ key, kind: "test", to: receiver, data: "0x01" as const });
  const nonceOf = async (address: Address, tag: "latest" | "pending") =>
    Number(await place.chain.rpc("eth_getTransactionCount", address, tag));

  async function mined(told: Promise<{ readonly status: string }>): Promise<string> {
    let status: string | undefined;
    told.then(
      (outcome) => {
        status = outcome.status;
      },
      (error: unknown) => {
        status = String(error);
      },
    );
    return await until("it is told", async () => {
      await place.chain.rpc("evm_mine");
      return status;
    });
  }

  /** The node refuses the first sending of a transaction, and the journal the first write after that. */
  function refusedAndUnwritten(journal: TransactionJournal, key: string): TransactionJournal {
    let isFull = false;
    let isRefused = false;
    place.proxy.setFault(({ method }) => {
      if (method !== "eth_sendRawTransaction" || isRefused) return undefined;
      isRefused = true;
      isFull = true;
      return { kind: "error", code: -32_000, message: "txpool is full" };
    });
    return {
      ...journal,
      updateTransaction: async (of, change) => {
        if (isFull && of === key) {
          isFull = false;
          throw new Error("disk full");
        }
        await journal.updateTransaction(of, change);
      },
    };
  }

  it("does not send what it told its caller has failed, and gives its nonce to the next", async () => {
    const inner = memoryJournal();
    const { queue, address } = await open(1, { journal: refusedAndUnwritten(inner, "failed"), foreignPatienceMs: 50 });
    const before = await nonceOf(address, "latest");
    const failure = await queue.submit(request("failed")).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Error).with.property("message", "disk full");
    expect(await mined(queue.submit({ ...request("next"), data: "0x02" }))).to.equal("success");
    await until("it is known that the first never will be", () => !queue.isPending("failed"));
    expect((await inner.transaction("failed"))?.status).to.equal("abandoned");
    expect(await nonceOf(address, "latest")).to.equal(before + 1);
  });

  it("says that a transaction is pending for as long as the next process would send it", async () => {
    const inner = memoryJournal();
    const first = await open(2, { journal: refusedAndUnwritten(inner, "failed") });
    await first.queue.submit(request("failed")).catch(() => undefined);
    expect((await inner.transaction("failed"))?.status).to.equal("sent");
    expect(first.queue.isPending("failed")).to.equal(true);
    expect(await first.queue.outcomeOf("failed")).to.include({ status: "abandoned", undecided: true });
  });

  it("resumes after a node that answers its first questions with an error", async () => {
    const first = await open(3);
    let isDown = false;
    place.proxy.setFault(({ method }) => {
      if (method === "eth_sendRawTransaction") isDown = true;
      return isDown ? { kind: "drop" } : undefined;
    });
    first.queue.submit(request("left")).catch(() => undefined);
    await until("it is journaled", async () => (await first.journal.transaction("left"))?.status === "sent");
    await first.queue.close();
    let errors = 0;
    place.proxy.setFault(({ method }) => {
      if (method !== "eth_getTransactionCount" || errors >= 2) return undefined;
      errors += 1;
      return { kind: "error", code: -32_000, message: "header not found" };
    });
    const { queue } = await open(3, { journal: first.journal });
    const told = queue.outcomeOf("left") as Promise<{ readonly status: string }>;
    expect(await mined(told)).to.equal("success");
  });

  it("tells of both when two rows of the journal hold one nonce", async () => {
    const { address, queue, journal } = await open(4);
    const nonce = await nonceOf(address, "latest");
    const told = queue.submit(request("later"));
    await until("it is sent", async () => (await nonceOf(address, "pending")) === nonce + 1);
    await queue.close();
    await told.catch(() => undefined);
    const row = await journal.transaction("later");
    if (row === undefined) throw new Error("no row");
    await journal.insertTransaction({
      ...row,
      key: "earlier",
      hashes: [`0x${"ab".repeat(32)}`],
      createdAt: row.createdAt - 10,
    });
    // Order as the real journal gives: by nonce, then age.
    const ordered: TransactionJournal = {
      ...journal,
      openTransactions: async (sender, chainId) =>
        (await journal.openTransactions(sender, chainId)).toSorted((a, b) => a.createdAt - b.createdAt),
    };
    const next = await open(4, { journal: ordered, foreignPatienceMs: 100 });
    await place.chain.rpc("evm_mine");
    await until("later is known", () => !next.queue.isPending("later"));
    await until("earlier is known", async () => {
      await place.chain.rpc("evm_mine");
      return !next.queue.isPending("earlier");
    });
  });

  for (const [question, method] of [
    ["the fee", "eth_getBlockByNumber"],
    ["the nonce", "eth_getTransactionCount"],
  ] as const) {
    it(`asks again for ${question} that the node answers with an error, instead of failing its caller`, async () => {
      const { queue } = await open(8);
      let errors = 0;
      place.proxy.setFault((call) => {
        if (call.method !== method || errors >= 2) return undefined;
        errors += 1;
        return { kind: "error", code: -32_000, message: "header not found" };
      });
      expect(await mined(queue.submit(request(`asked for ${question}`)))).to.equal("success");
    });
  }

  it("tells its caller that nothing was sent while the node answers the fee question with an error", async () => {
    const { queue } = await open(8);
    place.proxy.setFault(({ method }) =>
      method === "eth_getBlockByNumber" ? { kind: "error", code: -32_000, message: "header not found" } : undefined,
    );
    const outcome = await queue.submit(request("no fee"));
    expect(outcome).to.include({ status: "abandoned", undecided: false });
    expect(queue.isPending("no fee")).to.equal(false);
  });

  it("tells its caller, and fails it not, when the node refuses a transaction and answers nothing about it", async () => {
    const { queue } = await open(9);
    let isSent = false;
    place.proxy.setFault(({ method }) => {
      if (method === "eth_sendRawTransaction") isSent = true;
      return isSent ? { kind: "error", code: -32_000, message: "header not found" } : undefined;
    });
    expect(await queue.submit(request("refused"))).to.include({ status: "abandoned", undecided: false });
  });

  it("finds the receipts of the others when the node cannot tell of one", async () => {
    const { queue, journal, address } = await open(5);
    const nonce = await nonceOf(address, "latest");
    const first = queue.submit(request("first"));
    await until("it is sent", async () => (await nonceOf(address, "pending")) === nonce + 1);
    const hash = (await journal.transaction("first"))?.hashes[0];
    place.proxy.setFault(({ method, params }) =>
      method === "eth_getTransactionReceipt" && params[0] === hash
        ? { kind: "error", code: -32_000, message: "transaction indexing is in progress" }
        : undefined,
    );
    first.catch(() => undefined);
    expect(await mined(queue.submit(request("second")))).to.equal("success");
  });

  it("keeps watching the transaction that took the nonce of one that was asked for again", async () => {
    const { queue, address } = await open(6, { confirmations: 4, foreignPatienceMs: 100 });
    const before = await nonceOf(address, "latest");
    let isDown = false;
    place.proxy.setFault(({ method }) => {
      if (method === "eth_sendRawTransaction") isDown = true;
      return isDown ? { kind: "drop" } : undefined;
    });
    const late = await queue.submit({ ...request("late"), sendWithinMs: 200 });
    expect(late).to.include({ status: "abandoned", undecided: true });
    place.proxy.setFault(undefined);
    const next = queue.submit({ ...request("next"), data: "0x02" });
    await until("next is sent", async () => (await nonceOf(address, "pending")) === before + 1);
    const again = queue.submit(request("late"));
    await place.chain.rpc("evm_mine");
    await until("late has a nonce of its own", async () => (await nonceOf(address, "pending")) === before + 2);
    expect(await mined(next)).to.equal("success");
    expect(await mined(again)).to.equal("success");
    expect(queue.pending).to.equal(0);
  });

  it("does not call undone what a node has taken that failed inside, and shows late", async () => {
    const { queue, address } = await open(7);
    const before = await nonceOf(address, "latest");
    let isTaken = false;
    place.proxy.setFault(({ method, params }) => {
      if (method === "eth_sendRawTransaction") {
        if (!isTaken) place.chain.rpc("eth_sendRawTransaction", params[0]).catch(() => undefined);
        isTaken = true;
        return { kind: "error", code: -32_603, message: "internal error" };
      }
      if (method === "eth_getTransactionByHash") return { kind: "result", result: null };
      return method === "eth_getTransactionCount" && isTaken
        ? { kind: "result", result: `0x${before.toString(16)}` }
        : undefined;
    });
    expect(await queue.submit(request("taken"))).to.include({ status: "abandoned", undecided: true });
    expect(queue.isPending("taken")).to.equal(true);
    place.proxy.setFault(undefined);
    await until("it is known", async () => {
      await place.chain.rpc("evm_mine");
      return !queue.isPending("taken");
    });
    expect((await queue.outcomeOf("taken"))?.status).to.equal("success");
  });
});

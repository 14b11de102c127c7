/**
 * A process that submits transactions with a queue on a journal and kills itself (SIGKILL) at a named point of the first one:
 * `queue-process.ts RPC_URL KEY JOURNAL CRASH_POINT|none TO COUNT`. Prints one line per outcome.
 */
import { type Address, type Hex, numberToHex } from "viem";
import { accountFromKey } from "../../protocol/signing.ts";
import { openChain } from "../../chain/rpc.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { openTransactionQueue } from "../../chain/transactions/queue.ts";
import { openSqliteJournal } from "../../store/sqlite-journal.ts";

const [rpcUrl, key, journalPath, crashPoint, to, count] = process.argv.slice(2) as [
  string,
  Hex,
  string,
  string,
  Address,
  string,
];
const chain = openChain({ url: rpcUrl, clock: systemClock, random: Math.random });
const journal = await openSqliteJournal(journalPath);
const queue = await openTransactionQueue({
  client: chain.client,
  account: accountFromKey(key),
  chainId: await chain.client.getChainId(),
  journal,
  clock: systemClock,
  random: Math.random,
  pollMs: 20,
  crashPoint: (point) => {
    if (point === crashPoint) process.kill(process.pid, "SIGKILL");
  },
});
const outcomes = await Promise.all(
  Array.from({ length: Number(count) }, async (_, index) => {
    return await queue.submit({ key: `intent-${index}`, kind: "test", to, data: numberToHex(index, { size: 32 }) });
  }),
);
for (const outcome of outcomes) process.stdout.write(`${outcome.status}\n`);
await queue.close();
await journal.close();
await chain.close();

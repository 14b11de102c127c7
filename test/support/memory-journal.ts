import type { JournaledIntent, TransactionJournal } from "../../chain/transactions/transaction-journal.ts";

const open: ReadonlySet<JournaledIntent["status"]> = new Set(["queued", "allocated", "sent", "given_up"]);
const mined: ReadonlySet<JournaledIntent["status"]> = new Set(["success", "reverted"]);

/** A journal that forgets with the process; a second queue on it stands for a restart. */
export function memoryJournal(): TransactionJournal {
  const rows = new Map<string, JournaledIntent>();
  return {
    insertTransaction: async (row) => {
      await Promise.resolve();
      if (rows.has(row.key)) return false;
      rows.set(row.key, row);
      return true;
    },
    updateTransaction: async (key, change) => {
      await Promise.resolve();
      const row = rows.get(key);
      if (row === undefined) throw new Error(`no intent ${key}`);
      rows.set(key, { ...row, ...change });
    },
    transaction: async (key) => await Promise.resolve(rows.get(key)),
    minedTransactions: async (_sender, _chainId, fromNonce) =>
      await Promise.resolve(
        [...rows.values()].filter(({ status, nonce }) => mined.has(status) && nonce !== null && nonce >= fromNonce),
      ),
    openTransactions: async () => await Promise.resolve([...rows.values()].filter(({ status }) => open.has(status))),
  };
}

import type { JobRow, TransactionRow } from "../../store/journal.ts";

/** A gateway's job row with the fields that a test cares about. */
export function jobRow(fields: Partial<JobRow> & Pick<JobRow, "id">): JobRow {
  return {
    collection: "gateway",
    jobId: null,
    status: "open",
    open: true,
    document: "{}",
    revision: 1,
    createdAt: 1_000,
    updatedAt: 1_000,
    ...fields,
  };
}

/** A queued intent with the fields that a test cares about. */
export function transactionRow(fields: Partial<TransactionRow> & Pick<TransactionRow, "key">): TransactionRow {
  return {
    sender: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    chainId: 31_337,
    kind: "heartbeat",
    to: "0x5FbDB2315678afecb367f032d93F642f64180aa3",
    data: "0x3defb962",
    gas: null,
    nonce: null,
    hashes: [],
    status: "queued",
    outcome: null,
    createdAt: 1_000,
    updatedAt: 1_000,
    ...fields,
  };
}

/**
 * Writes a large job between small ones, all in one commit, with a file size limit that the large one passes: `journal-crowd.ts PATH`.
 * Prints a JSON object: which writes were refused, and which of them the journal holds all the same.
 */
import { openSqliteJournal } from "../../store/sqlite-journal.ts";
import { jobRow, transactionRow } from "./journal-rows.ts";

const [path = ""] = process.argv.slice(2);
const journal = await openSqliteJournal(path);
const results = await Promise.allSettled([
  journal.casJob(jobRow({ id: "before", revision: 1 })),
  journal.putJob(jobRow({ id: "large", document: JSON.stringify("x".repeat(12_000_000)) })),
  journal.casJob(jobRow({ id: "after", revision: 1 })),
  journal.insertTransaction(transactionRow({ key: "post" })),
]);
const names = ["before", "large", "after", "post"];
const held = [
  ...(await journal.openJobs("gateway")).map(({ id }) => id),
  ...((await journal.transaction("post")) === undefined ? [] : ["post"]),
];
const refused = names.filter((_, index) => results[index]?.status === "rejected");
process.stdout.write(JSON.stringify({ refused, held: held.toSorted() }));
await journal.close();

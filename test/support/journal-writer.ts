import { openSqliteJournal } from "../../store/sqlite-journal.ts";
import { jobRow } from "./journal-rows.ts";

/** Writes jobs, several in flight, and prints the id of each once its write has resolved. Runs until it is killed. */
const [path = "", prefix = ""] = process.argv.slice(2);
const journal = await openSqliteJournal(path);

async function writeForever(lane: number): Promise<void> {
  for (let index = 0; ; index += 1) {
    const id = `${prefix}-${lane}-${index}`;
    await journal.putJob(jobRow({ id, document: JSON.stringify({ id, filler: "x".repeat(400) }) }));
    const counter = await journal.nextCounter("nonce");
    process.stdout.write(`${id} ${counter}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, (_, lane) => writeForever(lane)));

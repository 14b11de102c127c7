import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { openSqliteJournal } from "../../store/sqlite-journal.ts";

const writer = fileURLToPath(new URL("../support/journal-writer.ts", import.meta.url));

/** Runs a writer until it has printed `lines` lines, kills it with SIGKILL, and returns what it had printed. */
function runAndKill(path: string, prefix: string, lines: number): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [writer, path, prefix], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString();
    });
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.split("\n").length > lines) child.kill("SIGKILL");
    });
    child.once("close", (_code, signal) => {
      if (signal === "SIGKILL") resolve(output.split("\n").slice(0, -1));
      else reject(new Error(`the writer left by itself: ${errors}`));
    });
  });
}

describe("the SQLite journal after kill -9", () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "t4t-crash-"));
  });

  afterEach(async () => {
    await rm(directory, { recursive: true });
  });

  it("holds every write that had resolved, opens without repair, and never hands out a counter twice", async function () {
    this.timeout(30_000);
    const path = join(directory, "journal.sqlite");
    const promised: string[] = [];
    const counters = new Set<string>();
    for (const [round, lines] of [1, 7, 40, 133, 300].entries()) {
      for (const line of await runAndKill(path, `r${round}`, lines)) {
        const [id = "", counter = ""] = line.split(" ");
        promised.push(id);
        expect(counters.has(counter), `counter ${counter} twice`).to.equal(false);
        counters.add(counter);
      }
    }
    const journal = await openSqliteJournal(path);
    const stored = new Set((await journal.openJobs("gateway")).map((job) => job.id));
    await journal.close();
    expect(promised.filter((id) => !stored.has(id))).to.deep.equal([]);
    expect(promised.length).to.be.greaterThan(400);
  });
});

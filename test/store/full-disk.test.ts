import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { JournalStorageError } from "../../store/errors.ts";
import { openSqliteJournal } from "../../store/sqlite-journal.ts";

const crowd = fileURLToPath(new URL("../support/journal-crowd.ts", import.meta.url));

describe("the SQLite journal when the disk refuses", function () {
  this.timeout(30_000);
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "t4t-full-"));
  });

  afterEach(async () => {
    await rm(directory, { recursive: true });
  });

  it("holds nothing that it told was refused, and refuses only what does not fit", async () => {
    const script = `ulimit -f 4000 && exec "$0" "$1" "$2"`;
    const { stdout } = await promisify(execFile)("bash", [
      "-c",
      script,
      process.execPath,
      crowd,
      join(directory, "journal.sqlite"),
    ]);
    expect(JSON.parse(stdout)).to.deep.equal({ refused: ["large"], held: ["after", "before", "post"] });
  });

  it("refuses a write while another program holds the file for too long, and takes the next", async () => {
    const path = join(directory, "journal.sqlite");
    let lost: Error | undefined;
    const journal = await openSqliteJournal(path, {
      onLost: (error) => {
        lost = error;
      },
    });
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    const refused = await journal.setValue("cursor", "1").catch((error: unknown) => error);
    other.exec("ROLLBACK");
    other.close();
    expect(refused).to.be.instanceOf(JournalStorageError);
    await journal.setValue("cursor", "2");
    expect(await journal.getValue("cursor")).to.equal("2");
    await journal.close();
    expect(lost).to.equal(undefined);
  });
});

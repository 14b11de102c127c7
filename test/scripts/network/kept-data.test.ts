import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { localFunderKey } from "../../../scripts/network/accounts.ts";
import { keptDeployment, setAsideJournals } from "../../../scripts/network/kept-data.ts";
import { startLocalNetwork } from "../../../scripts/network/local-network.ts";
import { JournalLockedError } from "../../../store/errors.ts";
import { openSqliteJournal } from "../../../store/sqlite-journal.ts";
import { startAnvil, type TestChain } from "../../support/chain.ts";

describe("data that a network keeps from run to run", function () {
  this.timeout(30_000);
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-kept-"));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  it("sets the journals of a chain that is gone aside, one run after the other, and nothing else", async () => {
    await writeFile(join(folder, "endpoints.json"), "{}");
    for (const run of ["earlier-1", "earlier-2"]) {
      const journal = await openSqliteJournal(join(folder, "provider.sqlite"));
      await journal.setValue("run", run);
      await journal.close();
      expect(await setAsideJournals([folder, join(folder, "never-used")])).to.deep.equal([join(folder, run)]);
    }
    expect((await readdir(folder)).toSorted()).to.deep.equal(["earlier-1", "earlier-2", "endpoints.json"]);
    const kept = await openSqliteJournal(join(folder, "earlier-2", "provider.sqlite"));
    expect(await kept.getValue("run")).to.equal("earlier-2");
    await kept.close();
    expect(await setAsideJournals([folder])).to.deep.equal([]);
  });

  it("moves no journal that a process still writes to", async () => {
    const journal = await openSqliteJournal(join(folder, "gateway.sqlite"));
    const refused = await setAsideJournals([folder]).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(JournalLockedError);
    await journal.close();
  });

  describe("with a chain of its own life", () => {
    let chain: TestChain;

    beforeEach(async () => {
      chain = await startAnvil();
    });

    afterEach(async () => {
      await chain.stop();
    });

    it("is made in a folder that is not there yet, and a later run goes on with the same contracts", async () => {
      const dataDir = join(folder, "new", "data");
      const run = async (): Promise<string> => {
        const network = await startLocalNetwork({
          rpcUrl: chain.rpcUrl,
          funderKey: localFunderKey,
          dataDir,
          providers: [],
          gateways: [],
          backendUrl: "http://127.0.0.1:9",
        });
        await network.stop();
        return network.deployment.escrow;
      };
      const first = await run();
      expect(await run()).to.equal(first);
      expect((await keptDeployment(chain.rpcUrl, join(dataDir, "deployment.json")))?.escrow).to.equal(first);
    });

    it("has no contracts where the chain has none, or the file is missing or is none", async () => {
      const file = join(folder, "deployment.json");
      expect(await keptDeployment(chain.rpcUrl, file)).to.equal(undefined);
      await writeFile(file, "{");
      expect(await keptDeployment(chain.rpcUrl, file)).to.equal(undefined);
      const [one, two, three] = [1, 2, 3].map((index) => chain.account(index).address);
      const absent = { chainId: chain.chainId, registry: one, escrow: two, token: three, deployedAtBlock: 0 };
      await writeFile(file, JSON.stringify(absent));
      expect(await keptDeployment(chain.rpcUrl, file)).to.equal(undefined);
    });
  });
});

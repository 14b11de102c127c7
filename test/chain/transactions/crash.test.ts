import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { privateKeyToAddress } from "viem/accounts";
import { startAnvil, startHardhatChain, type TestChain } from "../../support/chain.ts";

const script = fileURLToPath(new URL("../../support/queue-process.ts", import.meta.url));
const receiver = "0x00000000000000000000000000000000000a11ce";

interface Ended {
  readonly how: string;
  readonly lines: readonly string[];
}

function runQueue(...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString();
    });
    child.once("close", (code, signal) => {
      if (code === 0 || signal === "SIGKILL")
        resolve({ how: signal ?? "exit 0", lines: output.split("\n").filter((line) => line !== "") });
      else reject(new Error(errors));
    });
  });
}

for (const [name, start] of [
  ["a chain that mines at once", async () => await startHardhatChain()],
  ["a chain that mines by the clock", async () => await startAnvil({ blockTimeMs: 500 })],
] as const) {
  describe(`a transaction queue killed with SIGKILL on ${name}`, function () {
    this.timeout(60_000);
    let chain: TestChain;
    let folder: string;
    let account = 0;

    before(async () => {
      chain = await start();
    });

    after(async () => {
      await chain.stop();
    });

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), "t4t-queue-"));
      account += 1;
    });

    afterEach(async () => {
      await rm(folder, { recursive: true });
    });

    for (const point of ["simulated", "persisted", "sent", "mined", "finished"]) {
      it(`sends each of its transactions exactly once when it died at "${point}"`, async () => {
        const { key } = chain.account(account);
        const place = [chain.rpcUrl, key, join(folder, "journal.sqlite")];
        expect((await runQueue(...place, point, receiver, "3")).how).to.equal("SIGKILL");
        const second = await runQueue(...place, "none", receiver, "3");
        expect(second).to.deep.equal({ how: "exit 0", lines: ["success", "success", "success"] });
        const count = await chain.rpc("eth_getTransactionCount", privateKeyToAddress(key), "latest");
        expect(Number(count), "a transaction was lost or sent twice").to.equal(3);
      });
    }
  });
}

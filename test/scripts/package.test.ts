import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";

const root = fileURLToPath(new URL("../../", import.meta.url));
const run = promisify(execFile);

const consumer = `
import { jobEscrowAbi } from "t4t/abi/job-escrow";
import { providerRegistryAbi } from "t4t/abi/provider-registry";
import { messageTypes, receiptTypedData } from "t4t/messages";
import { paymentFor } from "t4t/money";
const names: readonly string[] = jobEscrowAbi.flatMap((entry) => (entry.type === "function" ? [entry.name] : []));
const zero = "0x0000000000000000000000000000000000000000";
const usage = { inputTokens: 1, outputTokens: 2 };
const { primaryType } = receiptTypedData({ chainId: 1, escrow: zero }, { jobId: zero, provider: zero, usage, responseHash: zero });
const payment: bigint = paymentFor({ inputPrice: 1_000_000n, outputPrice: 2_000_000n }, usage);
console.log(names.includes("postJob"), providerRegistryAbi.length > 0, messageTypes.Receipt.length, primaryType, payment);
`;

describe("the package as others install it", function () {
  this.timeout(60_000);
  let directory: string;

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "t4t-package-"));
  });
  after(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  it("exports ABIs, messages and money with their types, without this repository or its compiler", async () => {
    await run("npm", ["pack", "--silent", "--pack-destination", directory], { cwd: root });
    const place = join(directory, "node_modules/t4t");
    await mkdir(place, { recursive: true });
    await run("tar", ["-xzf", join(directory, "t4t-0.1.0.tgz"), "-C", place, "--strip-components=1"]);
    for (const name of ["viem", "abitype", "zod"]) {
      await symlink(join(root, "node_modules", name), join(directory, "node_modules", name));
    }
    await writeFile(join(directory, "package.json"), JSON.stringify({ type: "module" }));
    await writeFile(join(directory, "consumer.ts"), consumer);

    const typescript = join(root, "node_modules/typescript/bin/tsc");
    const flags = ["--module", "nodenext", "--target", "es2024", "--strict", "--skipLibCheck", "--types", ""];
    await run(process.execPath, [typescript, ...flags, "--lib", "es2024,dom", "consumer.ts"], { cwd: directory });
    const { stdout } = await run(process.execPath, ["consumer.js"], { cwd: directory });
    expect(stdout.trim()).to.equal("true true 5 Receipt 5n");
  });
});

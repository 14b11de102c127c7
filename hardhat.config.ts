import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import hardhatToolboxMochaEthers from "@nomicfoundation/hardhat-toolbox-mocha-ethers";
import { defineConfig } from "hardhat/config";

// Hardhat takes a file with the compiler in it; without one it downloads a compiler, which no test run should need.
const solc = createRequire(import.meta.url).resolve("solc/soljson.js");

export default defineConfig({
  plugins: [hardhatToolboxMochaEthers],
  solidity: {
    version: "0.8.34",
    path: solc,
    settings: {
      evmVersion: "cancun",
      optimizer: { enabled: true, runs: 2_500 },
    },
  },
  paths: {
    tests: { mocha: "test/contracts", solidity: "test/contracts/solidity" },
  },
  networks: {
    default: { type: "edr-simulated", chainId: 31337, hardfork: "cancun", mining: { auto: true } },
    // The network of this name configures `hardhat node`.
    // Blocks may share a second: else a burst of transactions carries chain time far ahead of the clock, and idle providers go stale.
    node: {
      type: "edr-simulated",
      chainId: 31337,
      hardfork: "cancun",
      allowBlocksWithSameTimestamp: true,
      mining: { auto: true },
    },
  },
  typechain: { outDir: "types", tsNocheck: true },
  test: {
    mocha: {
      timeout: 60_000,
      retries: 0,
      forbidOnly: true,
      forbidPending: true,
      reporter: fileURLToPath(new URL("scripts/testing/reporter.cjs", import.meta.url)),
    },
    solidity: {
      fuzz: { runs: 128, seed: "0x7434" },
      invariant: { runs: 32, depth: 64, failOnRevert: true },
    },
  },
});

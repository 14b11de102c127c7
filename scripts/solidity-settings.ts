/** The compiler and its settings: for what is deployed, tested, fuzzed and measured alike. */
export const COMPILER_VERSION = "0.8.34";
export const EVM_VERSION = "cancun";
export const OPTIMIZER_RUNS = 2_500;

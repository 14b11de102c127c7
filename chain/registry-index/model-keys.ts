import { modelKeyOf } from "../../protocol/model-key.ts";
import { cached } from "./bounded-cache.ts";

/** On-chain key of a model id. Few ids are in use, and neither a request nor an event should pay for a hash of one. */
export const indexedModelKey = cached(8192, modelKeyOf);

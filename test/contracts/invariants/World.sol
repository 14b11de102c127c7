// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IJobEscrow} from "../../../contracts/interfaces/IJobEscrow.sol";

uint256 constant CLIENTS = 3;
uint256 constant PROVIDERS = 3;
/// @dev Clients, owners, operators, a stranger. The first owner is also a client.
uint256 constant ACTORS = CLIENTS + 2 * PROVIDERS + 1;
uint256 constant STRANGER = ACTORS - 1;

/// @dev Most live jobs at a time, ended jobs that are looked at again, steps from one look at everything to the next.
uint256 constant MAX_LIVE = 12;
uint256 constant REMEMBERED = 6;
uint256 constant SWEEP = 16;

uint256 constant TIME_TO_LIVE = 600;
uint256 constant UNBONDING = 4_000;
uint256 constant MIN_PAYMENT = 1_000;
uint256 constant MIN_DURATION = 60;
uint256 constant MAX_DURATION = 3_600;
uint256 constant ACK_WINDOW = 30;
uint256 constant RESPONSE_WINDOW = 60;

bytes32 constant HASH = keccak256("response");
string constant MODEL = "model";
bytes32 constant MODEL_KEY = keccak256("model");
bytes32 constant RECEIPT =
    keccak256("Receipt(bytes32 jobId,address provider,uint64 inputTokens,uint64 outputTokens,bytes32 responseHash)");
bytes32 constant ACKNOWLEDGEMENT = keccak256("Acknowledgement(bytes32 jobId,address provider,bytes32 requestHash)");

uint256 constant OPEN = uint256(IJobEscrow.JobStatus.Open);
uint256 constant ACKNOWLEDGED = uint256(IJobEscrow.JobStatus.Acknowledged);
uint256 constant CANCEL_REQUESTED = uint256(IJobEscrow.JobStatus.CancelRequested);
uint256 constant COMPLETED = uint256(IJobEscrow.JobStatus.Completed);
uint256 constant DECLINED = uint256(IJobEscrow.JobStatus.Declined);
uint256 constant CANCELLED = uint256(IJobEscrow.JobStatus.Cancelled);
uint256 constant EXPIRED = uint256(IJobEscrow.JobStatus.Expired);
uint256 constant SLASHED = uint256(IJobEscrow.JobStatus.Slashed);

struct Provider {
    uint256 stake;
    uint256 unbonding;
    uint256 unbondingAt;
    uint256 open;
    uint256 cap;
    uint256 exposure;
    uint256 lastSeen;
    uint256 inputPrice;
    uint256 outputPrice;
    uint256 operatorLeftAt; // 0 = never
    bool offers;
    bool active;
    bool ownOperator;
    bytes32 slot; // of its row in the registry
}

struct Job {
    bytes32 id;
    uint256 nonce;
    uint256 client; // number of the actor
    uint256 provider;
    uint256 maxPayment;
    uint256 unsignedLimit;
    uint256 inputPrice;
    uint256 outputPrice;
    uint256 postedAt;
    uint256 since;
    uint256 deadline;
    uint256 status;
    bool consentOfOwner; // its acknowledgement is signed
    bool consentOfOperator;
}

struct World {
    uint256 seed;
    uint256 step;
    uint256 dice;
    uint256 time;
    uint256 nonce;
    uint256 burnt;
    uint256 liveCount;
    uint256 endings;
    uint256[9] reached; // how many jobs came to each status
    bool paused;
    bool forbidden;
    address[ACTORS] who;
    uint256[ACTORS] free;
    uint256[ACTORS] locked;
    Provider[PROVIDERS] providers;
    Job[MAX_LIVE] live;
    Job[REMEMBERED] ended;
}

/// @dev The rule that does not hold after a step.
error Broken(uint256 step, string rule);

// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev A job is two storage slots under its id. `JobMoney` is emptied when the job ends, which gives back most of what writing it
/// cost. `JobTerms` stays for good, so that an id can never be used twice.
///
/// Ends are told apart so: money empty and terms say Declined, Cancelled, Expired or Slashed: that; money empty and terms
/// still say a live status: Completed. A completion, the common end, thereby saves a write.

/// bits      field
/// 0..95     maxPayment
/// 96..255   client
type JobMoney is uint256;

/// bits      field
/// 0..95     unsignedLimit
/// 96..143   offeringId
/// 144..183  deadline           Unix seconds
/// 184..223  postedAt           Unix seconds
/// 224..247  sinceDelta         seconds from postedAt to the acknowledgement or the cancel request; saturates at 194 days
/// 248..255  status
type JobTermsWord is uint256;

using {client, maxPayment, isEmpty} for JobMoney global;
using {unsignedLimit, offeringId, deadline, postedAt, since, status, exists, withStatus, withStatusAt} for JobTermsWord global;

/// @dev Longest time that `sinceDelta` holds.
uint256 constant MAX_SINCE_DELTA = type(uint24).max;

/// @dev What is left of the money of a job that has ended.
JobMoney constant NO_MONEY = JobMoney.wrap(0);

uint256 constant CLIENT_SHIFT = 96;
uint256 constant OFFERING_ID_SHIFT = 96;
uint256 constant DEADLINE_SHIFT = 144;
uint256 constant POSTED_AT_SHIFT = 184;
uint256 constant SINCE_DELTA_SHIFT = 224;
uint256 constant STATUS_SHIFT = 248;

function packMoney(address client_, uint96 maxPayment_) pure returns (JobMoney) {
    return JobMoney.wrap((uint256(uint160(client_)) << CLIENT_SHIFT) | maxPayment_);
}

function client(JobMoney money) pure returns (address) {
    return address(uint160(JobMoney.unwrap(money) >> CLIENT_SHIFT));
}

function maxPayment(JobMoney money) pure returns (uint96) {
    return uint96(JobMoney.unwrap(money));
}

function isEmpty(JobMoney money) pure returns (bool) {
    return JobMoney.unwrap(money) == 0;
}

function packTerms(uint8 status_, uint40 postedAt_, uint40 deadline_, uint48 offeringId_, uint96 unsignedLimit_)
    pure
    returns (JobTermsWord)
{
    return JobTermsWord.wrap(
        (uint256(status_) << STATUS_SHIFT) | (uint256(postedAt_) << POSTED_AT_SHIFT)
            | (uint256(deadline_) << DEADLINE_SHIFT) | (uint256(offeringId_) << OFFERING_ID_SHIFT) | unsignedLimit_
    );
}

function unsignedLimit(JobTermsWord terms) pure returns (uint96) {
    return uint96(JobTermsWord.unwrap(terms));
}

function offeringId(JobTermsWord terms) pure returns (uint48) {
    return uint48(JobTermsWord.unwrap(terms) >> OFFERING_ID_SHIFT);
}

function deadline(JobTermsWord terms) pure returns (uint40) {
    return uint40(JobTermsWord.unwrap(terms) >> DEADLINE_SHIFT);
}

function postedAt(JobTermsWord terms) pure returns (uint40) {
    return uint40(JobTermsWord.unwrap(terms) >> POSTED_AT_SHIFT);
}

function since(JobTermsWord terms) pure returns (uint40) {
    return postedAt(terms) + uint24(JobTermsWord.unwrap(terms) >> SINCE_DELTA_SHIFT);
}

function status(JobTermsWord terms) pure returns (uint8) {
    return uint8(JobTermsWord.unwrap(terms) >> STATUS_SHIFT);
}

function exists(JobTermsWord terms) pure returns (bool) {
    return JobTermsWord.unwrap(terms) != 0;
}

/// @dev Another status, `since` kept.
function withStatus(JobTermsWord terms, uint8 status_) pure returns (JobTermsWord) {
    uint256 rest = JobTermsWord.unwrap(terms) & ((uint256(1) << STATUS_SHIFT) - 1);
    return JobTermsWord.wrap(rest | (uint256(status_) << STATUS_SHIFT));
}

/// @dev Another status from `time` on.
function withStatusAt(JobTermsWord terms, uint8 status_, uint256 time) pure returns (JobTermsWord) {
    uint256 delta = time - postedAt(terms);
    if (delta > MAX_SINCE_DELTA) delta = MAX_SINCE_DELTA;
    uint256 rest = JobTermsWord.unwrap(terms) & ((uint256(1) << SINCE_DELTA_SHIFT) - 1);
    return JobTermsWord.wrap(rest | (delta << SINCE_DELTA_SHIFT) | (uint256(status_) << STATUS_SHIFT));
}

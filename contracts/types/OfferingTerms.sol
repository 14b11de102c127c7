// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev One offering at one price, never changed: all that a settlement needs, in one storage slot. 0 = none.
/// The provider is its number and not its address, so that it fits.
///
/// bits      field
/// 0..95     inputPrice
/// 96..191   outputPrice
/// 192..223  providerId         number of registration, from 1
/// 224..255  contextLength
type OfferingTerms is uint256;

using {inputPrice, outputPrice, providerId, contextLength, exists} for OfferingTerms global;

uint256 constant OUTPUT_PRICE_SHIFT = 96;
uint256 constant PROVIDER_ID_SHIFT = 192;
uint256 constant CONTEXT_LENGTH_SHIFT = 224;

/// @dev No terms.
OfferingTerms constant NO_TERMS = OfferingTerms.wrap(0);

function packTerms(uint32 providerId_, uint96 inputPrice_, uint96 outputPrice_, uint32 contextLength_)
    pure
    returns (OfferingTerms)
{
    return OfferingTerms.wrap(
        (uint256(contextLength_) << CONTEXT_LENGTH_SHIFT) | (uint256(providerId_) << PROVIDER_ID_SHIFT)
            | (uint256(outputPrice_) << OUTPUT_PRICE_SHIFT) | inputPrice_
    );
}

function inputPrice(OfferingTerms terms) pure returns (uint96) {
    return uint96(OfferingTerms.unwrap(terms));
}

function outputPrice(OfferingTerms terms) pure returns (uint96) {
    return uint96(OfferingTerms.unwrap(terms) >> OUTPUT_PRICE_SHIFT);
}

function providerId(OfferingTerms terms) pure returns (uint32) {
    return uint32(OfferingTerms.unwrap(terms) >> PROVIDER_ID_SHIFT);
}

function contextLength(OfferingTerms terms) pure returns (uint32) {
    return uint32(OfferingTerms.unwrap(terms) >> CONTEXT_LENGTH_SHIFT);
}

function exists(OfferingTerms terms) pure returns (bool) {
    return OfferingTerms.unwrap(terms) != 0;
}

package import Foundation

/// When to ask for the next certificate.
package struct RenewalSchedule: Sendable {
    private var failures = 0

    package init() {}

    /// Returns the time of a renewal: two thirds into the period, or up to 3 % of the period earlier.
    ///
    /// The variation keeps relays that were set up together from renewing together.
    package static func renewal(of period: CertificatePeriod, using random: inout some RandomNumberGenerator) -> Date {
        let length = period.end.timeIntervalSince(period.start)
        return period.start + length * (2.0 / 3 - Double.random(in: 0...0.03, using: &random))
    }

    /// Returns the wait before the next attempt, and counts the failure.
    ///
    /// The wait doubles from 5 minutes up to 12 hours, which stays below the usual limit of 5 failed validations in an
    /// hour. It begins at 30 seconds if no validation was tried. Varies by 20 %; never less than the server asks for.
    package mutating func failed(_ fault: ACMEFault, using random: inout some RandomNumberGenerator) -> Duration {
        let first: Duration =
            switch fault.code {
            case .unreachable, .serverError: .seconds(30)
            default: .seconds(300)
            }
        let wait =
            min(first * (1 << min(failures, 20)), .seconds(43_200)) * Double.random(in: 0.8...1.2, using: &random)
        failures += 1
        return max(wait, min(fault.retryAfter ?? .zero, .seconds(7 * 86_400)))
    }

    package mutating func succeeded() { failures = 0 }
}

import Foundation
import RelayGateways
import RelayServer

extension FolderChecks {
    /// Checks the relay's certificate; `nil` if the relay has no TLS of its own.
    func certificate(of settings: ServeSettings, now: Date) -> Finding? {
        guard let files = settings.server.tls else { return nil }
        guard let certificates = settings.certificates else { return certificate(files, now: now) }
        let status = certificates.status
        let attempt = status?.nextAttempt.map { ", next attempt \($0.formatted(.iso8601))" } ?? ""
        guard certificates.period != nil else {
            guard let fault = status?.fault else {
                return Finding(
                    "certificate",
                    .advice,
                    "none yet for \(certificates.domain)",
                    next: "start the relay, which obtains it: zonecast serve"
                )
            }
            return Finding("certificate", .problem, fault + attempt, next: status?.remedy)
        }
        let found = certificate(files, now: now)
        guard let fault = status?.fault else { return found }
        let grade = found.grade == .good ? Finding.Grade.advice : found.grade
        return Finding(
            "certificate",
            grade,
            "\(found.found); it is not renewed: \(fault)\(attempt)",
            next: status?.remedy
        )
    }
}

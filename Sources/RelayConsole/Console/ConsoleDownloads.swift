import Crypto
import Foundation
import HTTPTypes
package import Records
import RelayAPI
import RelayCore
import RelaySystem
import Synchronization

/// Downloads of backups.
///
/// A backup contains all users' private records, which the console never shows. Therefore a download requires the
/// operator's password, and a ticket that is valid for one download by the same session within a minute. The browser
/// opens the URL directly, without the console's header, but with the cookie, which other sites cannot send.
struct ConsoleDownloads: Sendable {
    private let parts: ConsoleParts
    private let guardian: ConsoleGuard
    private let request: APIRequest

    init(_ parts: ConsoleParts, _ guardian: ConsoleGuard, _ request: APIRequest) {
        self.parts = parts
        self.guardian = guardian
        self.request = request
    }

    private struct DownloadRequest: Decodable {
        var name: String
        var password: String
    }

    private struct DownloadTicket: Encodable {
        var ticket: String
        var bytes: Int64
        var file: String
    }

    static func endpoints(_ parts: ConsoleParts, _ guardian: ConsoleGuard) -> [ConsoleEndpoint] {
        let downloads = { @Sendable (request: APIRequest) in ConsoleDownloads(parts, guardian, request) }
        return [
            .init(.post, "backups/ticket") { Console.json(try await downloads($0).offer()) },
            .init(.get, "backups/download", isDownload: true) { try downloads($0).send() },
        ]
    }

    private func signedIn() throws -> (person: Operator, secret: String) {
        guard let secret = ConsoleGuard.secret(of: request),
            let person = try parts.accounts.operatorSession(secret, OperatorSessionRules())
        else { throw ConsoleRefusal.signInFirst }
        return (person, secret)
    }

    private func offer() async throws -> DownloadTicket {
        let (person, secret) = try signedIn()
        let requested = try JSONDecoder().decode(DownloadRequest.self, from: Data(request.body))
        let backup = try ConsoleAPI.backup(requested.name, parts)
        try await guardian.confirm(person, requested.password, parts.accounts, from: request.remoteAddress)
        let ticket = guardian.tickets.issue(for: backup.name, to: secret, at: parts.time.now())
        return DownloadTicket(
            ticket: ticket,
            bytes: try parts.home.backups.stream(backup).length,
            file: backup.name + ".tar"
        )
    }

    private func send() throws -> APIResponse {
        let (person, secret) = try signedIn()
        let ticket = FormFields((request.query ?? "").utf8)?["ticket"] ?? ""
        guard let name = guardian.tickets.take(ticket, from: secret, at: parts.time.now()) else {
            throw ConsoleRefusal("This address was already used or has expired. Start the download again.", status: 404)
        }
        let backup = try ConsoleAPI.backup(name, parts)
        let archive = try parts.home.backups.stream(backup)
        try parts.accounts.note(
            AuditEntry(
                at: parts.time.now(),
                actor: person.name,
                action: "backup.download",
                subject: name,
                detail: ByteText.of(archive.length)
            )
        )
        var response = APIResponse(status: .ok)
        response.parts = ArchiveParts(archive)
        response.headers[.contentType] = "application/x-tar"
        let safe = name.filter { $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) }
        response.headers[.contentDisposition] = "attachment; filename=\"\(safe).tar\""
        return response
    }
}

/// One-time download tickets; in memory, bounded, and valid for a minute.
package final class DownloadTickets: Sendable {
    private struct Ticket {
        var backup: String
        /// The hash of the session's secret.
        var session: [UInt8]
        var end: Timestamp
    }

    private static let lifetime = Duration.seconds(60)
    private static let maxTickets = 64
    private let tickets = Mutex<[[UInt8]: Ticket]>([:])

    package init() {}

    package func issue(for backup: String, to session: String, at now: Timestamp) -> String {
        let text = RandomSource.system.hex(byteCount: 32)
        let ticket = Ticket(backup: backup, session: Self.hash(session), end: now + Self.lifetime)
        tickets.withLock { tickets in
            tickets = tickets.filter { $0.value.end > now }
            if tickets.count >= Self.maxTickets, let oldest = tickets.min(by: { $0.value.end < $1.value.end }) {
                tickets[oldest.key] = nil
            }
            tickets[Self.hash(text)] = ticket
        }
        return text
    }

    /// Returns the name of the ticket's backup and invalidates the ticket.
    package func take(_ text: String, from session: String, at now: Timestamp) -> String? {
        guard let ticket = tickets.withLock({ $0.removeValue(forKey: Self.hash(text)) }), ticket.end > now,
            ConstantTime.areEqual(ticket.session, Self.hash(session))
        else { return nil }
        return ticket.backup
    }

    private static func hash(_ text: String) -> [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}

/// Streams an archive as a response body.
private final class ArchiveParts: BodyParts {
    private let archive: Mutex<any BackupStream>
    let length: Int64

    init(_ archive: any BackupStream) {
        length = archive.length
        self.archive = Mutex(archive)
    }

    func next() throws -> BodyPart? {
        switch try archive.withLock({ try $0.next() }) {
        case .bytes(let bytes): .bytes(bytes)
        case .file(let path, let length): .file(FileBody(path: path, offset: 0, length: length))
        case nil: nil
        }
    }
}

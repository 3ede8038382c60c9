import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization

/// Backups as files for the operator's own machine.
///
/// A backup holds what the console shows to nobody: everybody's private contents. So whoever wants one says the password
/// once more, and gets an address that is good for one download by the same sign-in within a minute. The browser goes there
/// by itself, without the console's header; what other sites cannot send is the cookie.
struct ConsoleDownloads: Sendable {
    private let parts: ConsoleParts
    private let guardian: ConsoleGuard
    private let request: APIRequest

    init(_ parts: ConsoleParts, _ guardian: ConsoleGuard, _ request: APIRequest) {
        self.parts = parts
        self.guardian = guardian
        self.request = request
    }

    private struct Wish: Decodable {
        var name: String
        var password: String
    }

    private struct Offer: Encodable {
        var ticket: String
        var bytes: Int64
        var file: String
    }

    /// Whether the browser may come here by itself.
    static func isDownload(_ name: String, _ request: APIRequest) -> Bool {
        name == "backups/download" && request.method == .get && ConsoleGuard.isFromNoOtherSite(request)
    }

    /// The answer, if the request is about a download.
    func answer(_ name: String) async throws -> APIResponse? {
        switch (name, request.method) {
        case ("backups/ticket", .post): return ConsoleDoor.json(try await offer())
        case ("backups/download", .get): return try send()
        default: return nil
        }
    }

    private func signedIn() throws -> (person: Operator, secret: String) {
        guard let secret = ConsoleGuard.secret(of: request),
            let person = try parts.accounts.operatorSession(secret, OperatorSessionRules())
        else { throw ConsoleRefusal.signInFirst }
        return (person, secret)
    }

    private func offer() async throws -> Offer {
        let (person, secret) = try signedIn()
        let wish = try JSONDecoder().decode(Wish.self, from: Data(request.body))
        let backup = try ConsoleAPI.backup(wish.name, parts)
        try await guardian.confirm(person, wish.password, parts.accounts, from: request.remoteAddress)
        let ticket = guardian.tickets.issue(for: backup.name, to: secret, at: parts.time.now())
        return Offer(ticket: ticket, bytes: try BackupArchive(backup).length, file: backup.name + ".tar")
    }

    private func send() throws -> APIResponse {
        let (person, secret) = try signedIn()
        let ticket = FormFields((request.query ?? "").utf8)?["ticket"] ?? ""
        guard let name = guardian.tickets.take(ticket, from: secret, at: parts.time.now()) else {
            throw ConsoleRefusal("This address has been used or is too old. Ask for the download again.", status: 404)
        }
        let backup = try ConsoleAPI.backup(name, parts)
        let archive = try BackupArchive(backup)
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

/// Addresses for one download each; in memory, bounded, and good for a minute.
final class DownloadTickets: Sendable {
    private struct Ticket {
        var backup: String
        /// Of the session that asked.
        var session: [UInt8]
        var end: Timestamp
    }

    private static let lifetime = Duration.seconds(60)
    private static let most = 64
    private let tickets = Mutex<[[UInt8]: Ticket]>([:])

    func issue(for backup: String, to session: String, at now: Timestamp) -> String {
        let text = RandomSource.system.hex(byteCount: 32)
        let ticket = Ticket(backup: backup, session: Self.hash(session), end: now + Self.lifetime)
        tickets.withLock { tickets in
            tickets = tickets.filter { $0.value.end > now }
            if tickets.count >= Self.most { tickets.removeAll() }
            tickets[Self.hash(text)] = ticket
        }
        return text
    }

    /// The backup's name; never twice.
    func take(_ text: String, from session: String, at now: Timestamp) -> String? {
        guard let ticket = tickets.withLock({ $0.removeValue(forKey: Self.hash(text)) }), ticket.end > now,
            ConstantTime.areEqual(ticket.session, Self.hash(session))
        else { return nil }
        return ticket.backup
    }

    private static func hash(_ text: String) -> [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}

/// An archive on its way to a browser.
private final class ArchiveParts: BodyParts {
    private let archive: Mutex<BackupArchive>
    let length: Int64

    init(_ archive: BackupArchive) {
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

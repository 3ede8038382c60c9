import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
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
        let ticket = guardian.tickets.issue(Array(backup.name.utf8), to: secret, at: parts.time.now())
        return DownloadTicket(
            ticket: Base64URL.encode(ticket),
            bytes: try parts.home.backups.stream(backup).length,
            file: backup.name + ".tar"
        )
    }

    private func send() throws -> APIResponse {
        let (person, secret) = try signedIn()
        let ticket = FormFields((request.query ?? "").utf8)?["ticket"] ?? ""
        let sealed = Base64URL.decode(ticket.utf8) ?? []
        guard let content = guardian.tickets.take(sealed, from: secret, at: parts.time.now()) else {
            throw ConsoleRefusal("This address was already used or has expired. Start the download again.", status: 404)
        }
        let name = String(decoding: content, as: UTF8.self)
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

import Foundation
import HTTPTypes
import Logging
import Records
import RelayAPI
import RelayCore
import RelayServer

/// A line for each request, with its identifier and without anything private: no query, no name of a record, zone or
/// person, no address of a client.
///
/// Users and devices go by pseudonyms.
struct RequestLog: Sendable {
    private let logger: Logger
    private let names: Pseudonyms

    init(_ logger: Logger, _ names: Pseudonyms) {
        self.logger = logger
        self.names = names
    }

    /// Notes an answered request, and how long the answer took to make.
    func note(_ response: APIResponse, to request: APIRequest, in time: Duration) {
        var facts: Logger.Metadata = [
            "request": "\(response.usual?.requestID ?? response.otherHeaders[.requestUUID] ?? "-")",
            "method": "\(request.method)",
            // The query holds tokens and stays out.
            "path": "\(Self.loggable(request.path))",
            "status": .stringConvertible(response.status.code),
            "ms": .stringConvertible((time.milliseconds * 10).rounded() / 10),
            "bytes": .stringConvertible(response.sentLength),
        ]
        if let code = response.errorCode { facts["error"] = "\(code.rawValue)" }
        if let caller = response.caller {
            facts["user"] = caller.user.map { "\(names.of($0))" }
            facts["device"] = names.ofDevice(caller).map { "\($0)" }
        }
        logger.info("request", metadata: facts)
    }

    /// The address of an asset or of a share is as good as a key, so it is cut.
    static func loggable(_ path: String) -> String {
        for secret in ["/asset/1/", "/share/"] {
            guard let start = path.firstRange(of: secret) else { continue }
            let rest = path[start.upperBound...].prefix { $0 != "/" }
            return path[..<start.upperBound] + rest + "/…"
        }
        return path
    }
}

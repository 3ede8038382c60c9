import Foundation
import Records

/// The proxy that a program's surroundings name, by the variables that most programs on Linux follow: `https_proxy`,
/// `http_proxy`, `all_proxy` and `no_proxy`, in small or capital letters.
package struct ProxyAddress: Hashable, Sendable {
    package var host: String
    /// 0 where the variable names one that there is not.
    package var port: Int

    /// `nil` where none is to be used: for this machine itself there never is one.
    package init?(for url: URL, environment: [String: String]) {
        func named(_ name: String) -> String? {
            (environment[name] ?? environment[name.uppercased()]).flatMap { $0.isEmpty ? nil : $0 }
        }
        guard let host = url.host, !NetworkTransport.isLocal(url),
            let text = named((url.scheme ?? "") + "_proxy") ?? named("all_proxy"),
            !Self.isExempt(host, by: named("no_proxy") ?? ""),
            let proxy = URL(string: text.contains("://") ? text : "http://" + text), let name = proxy.host
        else { return nil }
        self.host = name
        port = PortNumber.isUsable(in: proxy.absoluteString) ? proxy.port ?? 80 : 0
    }

    /// Whether a comma-separated list of hosts and domains holds this one.
    private static func isExempt(_ host: String, by list: String) -> Bool {
        list.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces).lowercased() }.contains { entry in
            let domain = entry.hasPrefix(".") ? String(entry.dropFirst()) : entry
            return entry == "*" || host.lowercased() == domain || host.lowercased().hasSuffix("." + domain)
        }
    }
}

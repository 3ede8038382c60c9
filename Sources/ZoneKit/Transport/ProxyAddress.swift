import Foundation
import Records

/// The proxy for a URL, from the environment variables that most programs on Linux use.
///
/// The variables are `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, in lower or upper case.
package struct ProxyAddress: Hashable, Sendable {
    package var host: String
    /// 0 if the port in the variable is not valid.
    package var port: Int

    /// Returns `nil` if the request needs no proxy; requests to this machine never use one.
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

    /// Returns whether a comma-separated list of hosts and domains contains this host.
    private static func isExempt(_ host: String, by list: String) -> Bool {
        list.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces).lowercased() }.contains { entry in
            let domain = entry.hasPrefix(".") ? String(entry.dropFirst()) : entry
            return entry == "*" || host.lowercased() == domain || host.lowercased().hasSuffix("." + domain)
        }
    }
}

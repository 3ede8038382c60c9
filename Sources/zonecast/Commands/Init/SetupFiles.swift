import Foundation

/// The files that stand around a relay: its configuration, its service, the proxy in front of it.
///
/// `Deploy` holds them as written for `sync.example.org`; a test keeps the two alike.
struct SetupFiles: Sendable {
    /// The name by which clients reach the relay, without a scheme.
    var domain: String
    /// The relay's port on this machine.
    var port = 8080
    var data = "/var/lib/zonecast"
    var program = "/usr/bin/zonecast"
    var configuration = "/etc/zonecast/zonecast.yaml"
    /// Whether somebody is to run the relay from a browser.
    var hasConsole = false

    /// What a proxy on the same machine needs.
    var settings: [(key: String, value: String)] {
        [
            ("data", data), ("listen", "127.0.0.1:\(port)"), ("public-url", "https://\(domain)"),
            ("trusted-proxies", "127.0.0.1"),
        ] + (hasConsole ? [("console", "true")] : [])
    }

    /// What a configuration that was there already sets otherwise than it was asked for now, as it is written there.
    ///
    /// The port counts where one was named. Of what cannot be read `serve` and `config check` tell.
    func settingsThatStay() async -> [String] {
        guard let kept = try? await ConfigurationReading(flags: [:], environment: [:], file: configuration).settings
        else { return [] }
        return settings.compactMap { name, asked in
            guard let value = ConfigurationKeys.all.first(where: { $0.name == name })?.read(kept) else { return nil }
            let isAsked =
                switch name {
                case "data": URL(fileURLWithPath: value).standardizedFileURL.path == asked
                case "listen": port == Self(domain: domain).port || value.hasSuffix(":\(port)")
                case "public-url": value == asked
                default: true
                }
            return isAsked ? nil : "\(name): \(value)"
        }
    }

    /// Caddy gets and renews the certificate by itself.
    var caddy: String {
        """
        # Caddy in front of zonecast. It fetches and renews the certificate by itself and forwards WebSockets as they are.
        # Try it: caddy validate --config Caddyfile
        \(domain) {
            reverse_proxy 127.0.0.1:\(port) {
                # Notices and feeds go out as they come.
                flush_interval -1
            }
            request_body {
                # The largest asset (limits.asset) and what a form has around it.
                max_size 51MiB
            }
        }

        """
    }

    var nginx: String {
        """
        # nginx in front of zonecast: a file for /etc/nginx/conf.d. Certificates, for example, by certbot.
        # Try it: nginx -t
        map $http_upgrade $zonecast_connection {
            default upgrade;
            ""      "";
        }

        server {
            listen 443 ssl;
            listen [::]:443 ssl;
            server_name \(domain);

            ssl_certificate     /etc/letsencrypt/live/\(domain)/fullchain.pem;
            ssl_certificate_key /etc/letsencrypt/live/\(domain)/privkey.pem;
            ssl_protocols       TLSv1.2 TLSv1.3;

            # The largest asset (limits.asset) and what a form has around it.
            client_max_body_size 51m;

            location / {
                proxy_pass http://127.0.0.1:\(port);
                proxy_http_version 1.1;
                # These two lines let WebSockets through.
                proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection $zonecast_connection;
                proxy_set_header Host $http_host;
                proxy_set_header X-Forwarded-For $remote_addr;
                # The relay pings every 30 s; nginx cuts what is silent for longer than this.
                proxy_read_timeout 120s;
                proxy_send_timeout 120s;
                proxy_buffering off;
                proxy_request_buffering off;
            }
        }

        """
    }

    var haproxy: String {
        """
        # HAProxy in front of zonecast. The file named behind crt holds certificate, chain and key, one after the other.
        # Try it: haproxy -c -f haproxy.cfg
        global
            maxconn 20000

        defaults
            mode http
            timeout connect 5s
            timeout client  60s
            timeout server  60s
            # For WebSockets, once they are open; the relay pings every 30 s.
            timeout tunnel  120s
            timeout http-request 10s

        frontend zonecast_public
            bind :443 ssl crt /etc/haproxy/certs/\(domain).pem alpn http/1.1
            http-request set-header X-Forwarded-For %[src]
            default_backend zonecast_relay

        backend zonecast_relay
            option httpchk GET /readyz
            server relay 127.0.0.1:\(port) check

        """
    }
}

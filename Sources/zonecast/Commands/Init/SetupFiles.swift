import Foundation

/// The files around a relay: its configuration, its service and proxy configurations.
///
/// `Deploy` contains them for `sync.example.org`; a test compares them.
struct SetupFiles: Sendable {
    /// The relay's domain name for clients.
    var domain: String
    /// The relay's port on this machine.
    var port = 8080
    var data = "/var/lib/zonecast"
    /// The address of the database without its password; `nil`: files of the data folder.
    var store: String?
    var program = "/usr/bin/zonecast"
    var configuration = "/etc/zonecast/zonecast.yaml"
    /// Whether the console is enabled.
    var hasConsole = false

    /// The settings for a proxy on the same machine.
    var settings: [(key: String, value: String)] {
        [
            ("data", data), ("listen", "127.0.0.1:\(port)"), ("public-url", "https://\(domain)"),
            ("trusted-proxies", "127.0.0.1"),
        ] + (store.map { [("store", $0)] } ?? []) + (hasConsole ? [("console", "true")] : [])
    }

    /// Returns the settings of an existing configuration that differ from the requested ones.
    ///
    /// The port counts only if one was requested. Unreadable files are reported by `serve` and `config check`.
    func differingSettings() async -> [String] {
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

    /// The configuration of Caddy, which obtains and renews the certificate itself.
    var caddy: String {
        """
        # Caddy in front of zonecast. It obtains and renews the certificate and forwards WebSockets.
        # Check it: caddy validate --config Caddyfile
        \(domain) {
            reverse_proxy 127.0.0.1:\(port) {
                # Send notices and change feeds without buffering.
                flush_interval -1
            }
            request_body {
                # The largest asset (limits.asset) and its multipart form.
                max_size 51MiB
            }
        }

        """
    }

    var nginx: String {
        """
        # nginx in front of zonecast: a file for /etc/nginx/conf.d. Certificates, for example, from certbot.
        # Check it: nginx -t
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

            # The largest asset (limits.asset) and its multipart form.
            client_max_body_size 51m;

            location / {
                proxy_pass http://127.0.0.1:\(port);
                proxy_http_version 1.1;
                # These two lines forward WebSockets.
                proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection $zonecast_connection;
                proxy_set_header Host $http_host;
                proxy_set_header X-Forwarded-For $remote_addr;
                # The relay pings every 30 s; nginx closes connections that are idle for longer than this.
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
        # HAProxy in front of zonecast. The file after crt contains the certificate, the chain and the key, in this order.
        # Check it: haproxy -c -f haproxy.cfg
        global
            maxconn 20000

        defaults
            mode http
            timeout connect 5s
            timeout client  60s
            timeout server  60s
            # For open WebSockets; the relay pings every 30 s.
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

extension SetupFiles {
    /// The systemd unit of a service that runs as user `zonecast` and may write only to the data folder.
    var unit: String {
        """
        [Unit]
        Description=zonecast sync relay
        Documentation=file:/usr/share/doc/zonecast/README.md
        Wants=network-online.target
        After=network-online.target
        # Always restart: by default, systemd gives up after five starts in ten seconds.
        StartLimitIntervalSec=0

        [Service]
        Type=exec
        User=zonecast
        Group=zonecast
        ExecStart=\(Self.argument(program)) serve --config \(Self.argument(configuration))
        # A graceful stop takes up to 12 s (limits.shutdown and 2 s).
        TimeoutStopSec=20
        Restart=on-failure
        RestartSec=1
        # One descriptor per connection (limits.connections), and some for files.
        LimitNOFILE=65536

        UMask=0077
        StateDirectory=zonecast
        StateDirectoryMode=0700
        ReadWritePaths=\(Self.word(data))
        ProtectSystem=strict
        ProtectHome=yes
        PrivateTmp=yes
        PrivateDevices=yes
        ProtectClock=yes
        ProtectControlGroups=yes
        ProtectHostname=yes
        ProtectKernelLogs=yes
        ProtectKernelModules=yes
        ProtectKernelTunables=yes
        ProtectProc=invisible
        ProcSubset=pid
        NoNewPrivileges=yes
        RestrictNamespaces=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
        LockPersonality=yes
        MemoryDenyWriteExecute=yes
        RemoveIPC=yes
        SystemCallArchitectures=native
        SystemCallFilter=@system-service
        SystemCallFilter=~@privileged @resources
        # The relay raises its soft limit of descriptors to the hard limit.
        SystemCallFilter=setrlimit prlimit64
        SystemCallErrorNumber=EPERM
        # Ports below 1024, for TLS without a proxy.
        AmbientCapabilities=CAP_NET_BIND_SERVICE
        CapabilityBoundingSet=CAP_NET_BIND_SERVICE

        [Install]
        WantedBy=multi-user.target

        """
    }

    /// Returns a path in systemd's syntax: escapes `%`, and quotes paths with spaces or quotes.
    static func word(_ path: String) -> String {
        let text = path.replacing("%", with: "%%")
        guard text.contains(where: { $0.isWhitespace || "\"'\\;".contains($0) }) else { return text }
        return "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }

    /// Returns a path for a systemd command line, where `$` is escaped too.
    private static func argument(_ path: String) -> String { word(path).replacing("$", with: "$$") }
}

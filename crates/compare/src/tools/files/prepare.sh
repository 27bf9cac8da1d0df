set -e
mariadb-install-db --defaults-file={folder}/my.cnf --auth-root-authentication-method=normal --skip-test-db >/dev/null
echo 'create database sbtest;' | mariadbd --defaults-file={folder}/my.cnf --bootstrap 2>/dev/null
mariadbd --defaults-file={folder}/my.cnf 2>/dev/null &
server=$!
until [ -S {folder}/db.sock ]; do
    kill -0 $server
    sleep 0.1
done
sysbench oltp_read_write --db-driver=mysql --mysql-socket={folder}/db.sock --mysql-user=root --table-size=10000 prepare
kill $server
wait $server
